// @peculiar/x509 finds its algorithms through a container that does not load unless `Reflect` can be asked for decorator metadata. None
// is ever written here, so the answer to both questions is that there is none. Import it before @peculiar/x509.

const reflect = Reflect as { getMetadata?: () => undefined; getOwnMetadata?: () => undefined };
reflect.getMetadata ??= () => undefined;
reflect.getOwnMetadata ??= () => undefined;
