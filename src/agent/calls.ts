// What the local socket serves: one call a line of its table. A call that changes a mount says which node it means, for on another machine
// the socket of another agent may lie at the same path.
import { FlockError } from '../model/errors.ts';
import { nodeName, objectName } from '../model/names.ts';
import type { LocalNode } from './local-node.ts';
import { textOf, type Call } from './socket.ts';
import type { Transfers } from './transfers.ts';

export function socketCalls(local: LocalNode, transfers: Transfers): { [path: string]: Call } {
  return {
    '/v1/publish': async (body) => {
      refuseOtherNode(local.node, body);
      return local.publish({ volume: textOf(body, 'volume'), target: textOf(body, 'target'), readOnly: body['readOnly'] === true });
    },
    '/v1/unpublish': async (body) => {
      refuseOtherNode(local.node, body);
      const target = body['target'] === undefined ? {} : { target: textOf(body, 'target') };
      await local.unpublish({ volume: textOf(body, 'volume'), ...target });
      return {};
    },
    '/v1/status': () =>
      Promise.resolve({
        node: local.node,
        transfers: transfers.progress().map(({ move, progress }) => ({
          move,
          ...progress,
          bytesTotal: String(progress.bytesTotal),
          bytesDone: String(progress.bytesDone),
          bytesSent: String(progress.bytesSent),
          bytesResumed: String(progress.bytesResumed),
        })),
      }),
  };
}

function refuseOtherNode(own: string, body: { [field: string]: unknown }): void {
  const [node, volume] = [nodeName(textOf(body, 'node')), objectName(textOf(body, 'volume'))];
  if (node !== own)
    throw new FlockError(
      'NotPermitted',
      `this machine is node ${own}, and volume ${volume} is on node ${node}: nothing was done. Run the command on the machine of node ${node}`,
    );
}
