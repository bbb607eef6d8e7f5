// Calls to a CSI socket, as the kubelet and the sidecars make them. Only *.test.ts import it.
import {
  credentials,
  Metadata,
  status,
  type ChannelCredentials,
  type Client,
  type handleUnaryCall,
  type ServiceError,
} from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { afterwards, type Test } from './afterwards.ts';

/** Every method of a generated service as a promise; the request may leave out what it does not say. */
export type Calls<S> = {
  [M in keyof S as string extends M ? never : M]: S[M] extends handleUnaryCall<infer Q, infer A>
    ? (request?: Partial<Q>, patience?: number) => Promise<A>
    : never;
};

interface Coder {
  fromPartial(partial: object): object;
}

type Reply = (error: ServiceError | null, answer: object) => void;
type Caller = (request: object, metadata: Metadata, options: { deadline: number }, reply: Reply) => unknown;

/** `requests` has the coder of each method's request by the name `<Method>Request`: the generated module. */
export function clientOf<S>(
  t: Test,
  path: string,
  of: new (address: string, credentials: ChannelCredentials) => Client,
  requests: { [type: string]: unknown },
): Calls<S> {
  const client = new of(`unix:${path}`, credentials.createInsecure());
  afterwards(t, () => client.close());
  const call = (method: string, partial: object, patience: number): Promise<object> => {
    const coder = requests[`${method.charAt(0).toUpperCase()}${method.slice(1)}Request`] as Coder;
    return new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + patience };
      const reply: Reply = (error, answer) => (error ? reject(error) : resolve(answer));
      (Reflect.get(client, method) as Caller).call(client, coder.fromPartial(partial), new Metadata(), options, reply);
    });
  };
  return new Proxy({} as Calls<S>, {
    get:
      (_, method: string) =>
      (request: object = {}, patience = 30_000) =>
        call(method, request, patience),
  });
}

/** Fails unless the call is refused with that code and a text like that; the text. */
export async function refused(call: Promise<unknown>, code: status, text: RegExp = /./u): Promise<string> {
  const error = await call.then(
    (answer) =>
      assert.fail(`answered ${JSON.stringify(answer, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`),
    (thrown: ServiceError) => thrown,
  );
  assert.equal(status[error.code], status[code], error.details);
  assert.match(error.details, text);
  return error.details;
}
