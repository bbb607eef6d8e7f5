// What the local socket serves: one call a line of its table. A call that changes a mount says which node it means, for on another machine
// the socket of another agent may lie at the same path.
import { FlockError } from '../model/errors.ts';
import { nodeName, objectName } from '../model/names.ts';
import type { Bench } from './bench.ts';
import type { LocalNode } from './local-node.ts';
import { textOf, type Call } from './socket.ts';
import type { Transfers } from './transfers.ts';

export function socketCalls(local: LocalNode, transfers: Transfers, bench: Bench): { [path: string]: Call } {
  return {
    '/v1/publish': async (body) => {
      refuseOtherNode(local.node, textOf(body, 'node'), `volume ${objectName(textOf(body, 'volume'))}`);
      return local.publish({ volume: textOf(body, 'volume'), target: textOf(body, 'target'), readOnly: body['readOnly'] === true });
    },
    '/v1/unpublish': async (body) => {
      refuseOtherNode(local.node, textOf(body, 'node'), `volume ${objectName(textOf(body, 'volume'))}`);
      const target = body['target'] === undefined ? {} : { target: textOf(body, 'target') };
      await local.unpublish({ volume: textOf(body, 'volume'), ...target });
      return {};
    },
    '/v1/bench': async (body, signal) => {
      refuseOtherNode(local.node, textOf(body, 'node'), 'what is to be measured');
      const to = body['to'] === undefined ? {} : { to: nodeName(textOf(body, 'to')) };
      const seconds = Number(body['seconds']);
      return bench.run({ seconds: seconds >= 1 && seconds <= 5 ? seconds : 2, ...to }, signal);
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

function refuseOtherNode(own: string, meant: string, what: string): void {
  const node = nodeName(meant);
  if (node !== own)
    throw new FlockError(
      'NotPermitted',
      `this machine is node ${own}, and ${what} is on node ${node}: nothing was done. Run the command on the machine of node ${node}`,
    );
}
