// What a server's refusal, or its silence, means: from HTTP statuses, Kubernetes' Status objects and socket errors to FlockErrors.
// Knows no kind and opens no connection.
import { FlockError, messageOf, type Reason } from '../model/errors.ts';
import type { Status } from './status.ts';

/** What is read of a Status: any server may have sent it, so that nothing in it is sure. */
export type ReceivedStatus = Partial<Status>;

const BY_REASON: { [reason: string]: Reason } = {
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  Conflict: 'Conflict',
  Gone: 'Expired',
  Expired: 'Expired',
  Invalid: 'Invalid',
  BadRequest: 'Invalid',
  RequestEntityTooLarge: 'Invalid',
  Unauthorized: 'Unauthorized',
  Forbidden: 'Forbidden',
  MethodNotAllowed: 'Unsupported',
  NotAcceptable: 'Unsupported',
  UnsupportedMediaType: 'Unsupported',
  TooManyRequests: 'Unavailable',
  ServerTimeout: 'Unavailable',
  Timeout: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  InternalError: 'Unavailable',
  // Of our own server alone.
  InsufficientStorage: 'NoSpace',
  NotImplemented: 'Unsupported',
};

const BY_CODE: { [code: number]: Reason } = {
  400: 'Invalid',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'Unsupported',
  406: 'Unsupported',
  409: 'Conflict',
  410: 'Expired',
  413: 'Invalid',
  415: 'Unsupported',
  422: 'Invalid',
  429: 'Unavailable',
  501: 'Unsupported',
  507: 'NoSpace',
};

/** What the server said is enough, but for these: there it must be told who said it, and what to do. */
const TOLD: { [reason in Reason]?: (server: string, said: string) => string } = {
  Unavailable: (server, said) => `${server} cannot answer now: ${said}${said.includes('try again') ? '' : '; try again later'}`,
  Unauthorized: (server, said) => `${server} does not accept this client's certificate or token: ${said}`,
  Internal: (server, said) => `${server} answered what is not understood: ${said}`,
};

const unknownCode = (code: number): Reason => (code >= 500 ? 'Unavailable' : 'Internal');

/** `code` is the HTTP status; `status` what came with it, if it was a Status at all. */
export function refusalOf(server: string, code: number, status: ReceivedStatus | null): FlockError {
  const reason = BY_REASON[status?.reason ?? ''] ?? BY_CODE[code] ?? unknownCode(code);
  const said = status?.message ?? `HTTP status ${code}`;
  return new FlockError(reason, TOLD[reason]?.(server, said) ?? said);
}

/** The server does not know the whole kind, which reads like a missing object but is not. */
export const kindUnknown = (server: string, resource: string): FlockError =>
  new FlockError(
    'NotFound',
    `${server} does not serve ${resource}: install Flock's custom resources there, or pick another server with --server`,
  );

const NOBODY = new Set(['ECONNREFUSED', 'ENOENT', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN']);
const UNTRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_SIGNATURE_FAILURE',
]);

const codeOf = (error: unknown): string => {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string') return code;
  // An address list that failed as a whole: each member failed in its own way, the first is as good as any.
  return error instanceof AggregateError && error.errors.length > 0 ? codeOf(error.errors[0]) : '';
};

/** What a socket or TLS error means to the caller. */
export function unreachable(server: string, cause: unknown): FlockError {
  if (cause instanceof FlockError) return cause;
  const code = codeOf(cause);
  const options = { cause };
  if (NOBODY.has(code)) {
    return new FlockError('Unavailable', `no server answers at ${server}: is it running? (flockctl up, or --server)`, options);
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return new FlockError(
      'Unavailable',
      `the name of server ${server} cannot be resolved: check it, or pick another with --server`,
      options,
    );
  }
  if (UNTRUSTED.has(code)) {
    const why =
      "its certificate is not of the authority that this client trusts: check the server's address and the authority in the kubeconfig";
    return new FlockError('Unauthorized', `${server} is not trusted: ${why}`, options);
  }
  if (code.startsWith('CERT_') || code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return new FlockError(
      'Unauthorized',
      `${server} is not trusted: ${messageOf(cause)}; check its address, its certificate and both clocks`,
      options,
    );
  }
  if (/^ERR_SSL_.*ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/u.test(code)) {
    const alert = code
      .replace(/^.*ALERT_/u, '')
      .replaceAll('_', ' ')
      .toLowerCase();
    return new FlockError(
      'Unauthorized',
      `${server} refused this client's certificate (${alert}): it may be expired, revoked or of another authority`,
      options,
    );
  }
  return new FlockError('Unavailable', `the connection to ${server} failed: ${messageOf(cause)}; try again later`, options);
}
