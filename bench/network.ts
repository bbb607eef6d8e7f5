// Two network namespaces joined by a link of 1 Gb/s (tbf on both ends), as two machines with a slow wire between them.
import { run } from '../src/host/run.ts';
import type { Ground } from './ground.ts';
import type { Ways } from './ours.ts';

const ip = (...args: string[]): Promise<unknown> => run('ip', args);

export async function slowLink(ground: Ground): Promise<Ways> {
  const [source, target] = [`flock-bench-s${process.pid}`, `flock-bench-t${process.pid}`] as const;
  for (const namespace of [source, target]) {
    await ip('netns', 'add', namespace);
    ground.later(() => ip('netns', 'delete', namespace));
  }
  await ip('link', 'add', 'bench0', 'netns', source, 'type', 'veth', 'peer', 'name', 'bench0', 'netns', target);
  for (const [namespace, address] of [
    [source, '10.99.7.1/24'],
    [target, '10.99.7.2/24'],
  ] as const) {
    await ip('-n', namespace, 'address', 'add', address, 'dev', 'bench0');
    await ip('-n', namespace, 'link', 'set', 'bench0', 'up');
    await run('tc', ['-n', namespace, 'qdisc', 'add', 'dev', 'bench0', 'root', 'tbf', 'rate', '1gbit', 'burst', '1mb', 'latency', '50ms']);
  }
  return { host: '10.99.7.1', namespaces: [source, target] };
}
