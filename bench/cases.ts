// Cases that are ours alone: a delta of scattered writes, limits, a killed target, several moves at once.
import { denseLoad, type Load } from './loads.ts';
import { endPeers, makeVolume, Mover, removeVolume, startPeers, withMover } from './ours.ts';
import { add } from './samples.ts';
import { say } from './say.ts';
import type { Context } from './transfer.ts';

const MIB = 1024 * 1024;
const BLOCK = 4096;

async function withVolume(context: Context, load: Load, act: () => Promise<void>): Promise<void> {
  const { image } = await makeVolume(context.ground, load);
  try {
    await act();
  } finally {
    await removeVolume(image);
  }
}

/** 100,000 blocks of 4 KiB, anywhere, between two rounds; and again before the final one. */
export async function measureDelta(context: Context): Promise<void> {
  const { ground, wanted } = context;
  const load = denseLoad(wanted.size);
  await withVolume(context, load, async () => {
    for (let round = 0; round < wanted.rounds; round += 1) await withMover({ ground, load }, (mover) => delta(context, mover, load));
  });
}

async function delta({ samples }: Context, mover: Mover, load: Load): Promise<void> {
  const count = Math.min(100_000, load.size / BLOCK / 8);
  const { source } = mover.peers;
  await mover.pull(0);
  await source.ask('overwrite', { copy: mover.copy, count });
  const round = await mover.pull(1);
  await source.ask('overwrite', { copy: mover.copy, count });
  const found = await source.ask('changed', { copy: mover.copy, from: mover.point(1), to: 'live' });
  await source.ask('fence', { fenced: true });
  const last = await mover.pull(2, true);
  add(samples, 'delta', {
    'flock: bytes sent over bytes changed': last.bytesSent / (count * BLOCK),
    'bytes changed': count * BLOCK,
    'flock: round': round.seconds,
    'flock: finding, alone': found.seconds,
    'flock: finding': last.spent['preparing'] ?? 0,
    'flock: final': last.seconds,
    'flock: frames': last.frames,
  });
  say(`delta ${JSON.stringify({ round, found, last })}`);
}

/** Payload a second over the limit, at limits that change while a round runs. */
export async function measureLimits(context: Context): Promise<void> {
  const { ground } = context;
  // Enough to be busy at all of them.
  const load = denseLoad(Math.max(context.wanted.size, 3 * 1024 * MIB));
  await withVolume(context, load, () =>
    withMover({ ground, load }, async (mover) => {
      const pulled = mover.pull(0).catch(() => null);
      for (const limit of [20e6, 100e6, 400e6]) {
        await mover.peers.target.ask('limit', { bytesPerSecond: limit });
        await seconds(1.5);
        const held = (await sentRate(mover)) / limit;
        add(context.samples, 'limit', { [`rate over a limit of ${limit / 1e6} MB/s`]: held });
        say(`limit ${limit / 1e6} MB/s: ${held.toFixed(3)}`);
      }
      await mover.peers.target.kill();
      await pulled;
    }),
  );
}

async function sentRate({ peers }: Mover): Promise<number> {
  const [before, began] = [(await peers.source.ask('usage', {})).sent, performance.now()];
  await seconds(4);
  const [after, ended] = [(await peers.source.ask('usage', {})).sent, performance.now()];
  return ((after - before) * 1000) / (ended - began);
}

const seconds = (count: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, count * 1000));

/** The target is killed in the middle of a round; what is sent again is counted. */
export async function measureResume(context: Context): Promise<void> {
  const { ground, wanted, samples } = context;
  const load = denseLoad(wanted.size);
  await withVolume(context, load, async () => {
    for (let round = 0; round < wanted.rounds; round += 1)
      await withMover({ ground, load }, async (mover) => {
        const cut = load.size * (0.3 + 0.4 * Math.random());
        const pulled = mover.pull(0).catch(() => null);
        for (let sent = 0; sent < cut;) ({ sent } = await mover.peers.source.ask('usage', {}));
        await mover.restartTarget();
        await pulled;
        await mover.pull(0);
        const { sent } = await mover.peers.source.ask('usage', {});
        add(samples, 'resume', { 'MiB sent again after SIGKILL': (sent - load.size) / MIB });
        say(`resume: ${((sent - load.size) / MIB).toFixed(1)} MiB again`);
      });
  });
}

/** Four moves at once between two nodes: what their processes hold. */
export async function measureParallel(context: Context): Promise<void> {
  const { ground, samples, wanted } = context;
  const loads = [1, 2, 3, 4].map((index) => ({ ...denseLoad(wanted.size / 4), name: `dense${index}` }));
  const images = [];
  for (const load of loads) images.push((await makeVolume(ground, load)).image);
  const peers = await startPeers(ground);
  const movers: Mover[] = [];
  try {
    for (const load of loads) movers.push(await Mover.start(peers, { ground, load }));
    await Promise.all(movers.map((mover) => mover.pull(0)));
    const { source, target } = await (movers[0] as Mover).cost();
    add(samples, 'parallel', { 'flock: source, resident': source.resident, 'flock: target, resident': target.resident });
    say(`parallel: ${JSON.stringify({ source, target })}`);
  } finally {
    await endPeers(peers);
    for (const mover of movers) await mover.clean();
    for (const image of images) await removeVolume(image);
  }
}
