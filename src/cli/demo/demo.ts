// The story that the demo tells: an application writes, its volume moves to another node, an agent is killed on the way, and every claim
// made about that is proven from outside. Knows the cluster only by its records, its agents' sockets and its disks.
import { phaseOf } from '../../decide/observed.ts';
import { FlockError, messageOf } from '../../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../../model/meta.ts';
import { Moves, type Move } from '../../model/move.ts';
import { humanBytes } from '../../model/quantity.ts';
import { StorageNodes } from '../../model/storage-node.ts';
import { Volumes, type Volume } from '../../model/volume.ts';
import { hostAbilities } from '../../host/probe.ts';
import type { Fetching } from '../agent-socket.ts';
import type { Context } from '../context.ts';
import { Interrupted } from '../exit-codes.ts';
import { bytesOf, harmless, humanRate } from '../format.ts';
import { isOver } from '../move-progress.ts';
import { goesOn, isProven, pauseOf, prove, type Acknowledged } from './acknowledged.ts';
import { eventually, followMove, type Play } from './following.ts';
import { proveSource, type DemoPool } from './source-proof.ts';
import { openStage } from './stage.ts';
import { byHand, summary, type Cost } from './summary.ts';
import { Telling } from './telling.ts';
import { CONTENT, directoryWorkload, mountedWorkload, rawWorkload, type Workload } from './workload.ts';
import type { PoolGround } from '../local/pool-disk.ts';

const VOLUME = 'db';
const SOURCE = 'node-1';
const TARGET = 'node-2';
const SIZE = '768Mi';
/** Bytes a second: so slow that the copy can be watched. */
const BANDWIDTH = 40_000_000;
/** The agent is killed when this is there: more than a crash may cost (64 MiB), less than all. */
const KILLED_AT = CONTENT * 0.45;
/** Commits before the move, and again at the target. */
const SOME = 100;
/** A pool without points compares everything while the application stands still: it is let. */
const ALLOWED_PAUSE = { points: '2s', noPoints: '10m' };

interface Scene extends Play {
  pool: DemoPool;
  workload: Workload;
}

/**
 * Plays it in one of the pools that `flockctl up` makes; by default the one that shows most: block devices as root, directories without. How
 * many claims did not hold. Throws Interrupted on Ctrl-C; nothing is left behind in any case.
 */
export async function runDemo(context: Context, pool: DemoPool = process.geteuid?.() === 0 ? 'local' : 'directory'): Promise<number> {
  const telling = new Telling(context);
  telling.line(telling.paint('bold', 'Flock: a volume moves to another node while its application writes'));
  const stage = openStage(context, (text) => telling.lack(text));
  let workload: Workload;
  try {
    workload = await play({ context, stage, telling }, pool);
  } catch (error) {
    await breakOff({ context, stage, telling }, error);
    if (context.interrupted.aborted) throw new Interrupted('stopped; nothing is left behind', { cause: error });
    throw error;
  }
  if (telling.failed > 0) tellWarnings({ stage, telling });
  telling.step('clearing everything away');
  const left = await stage.clear();
  telling.claim('nothing is left behind: no process, no mount, no loop device, no file', left.length === 0, left.join(', '));
  telling.heading('By hand');
  for (const command of byHand(workload.byHand)) telling.line(`  ${command}`);
  telling.line(`\n${telling.held} passed, ${telling.failed} failed`);
  return telling.failed;
}

/** Throws Internal when something is left behind. */
async function breakOff({ context, stage, telling }: Play, cause: unknown): Promise<void> {
  telling.end();
  if (!context.interrupted.aborted) tellWarnings({ stage, telling });
  const left = await stage.clear();
  if (left.length > 0) throw new FlockError('Internal', `${messageOf(cause)}; and this is left behind: ${left.join(', ')}`, { cause });
}

function tellWarnings({ stage, telling }: Pick<Play, 'stage' | 'telling'>): void {
  const warnings = stage.warnings();
  if (warnings.length > 0) telling.heading('The last warnings of the logs');
  for (const warning of warnings) telling.line(`  ${harmless(warning)}`);
}

/** What was shown. */
async function play(parts: Play, pool: DemoPool): Promise<Workload> {
  const { telling } = parts;
  telling.heading('A cluster on this machine');
  const scene = await setUp(parts, pool);
  telling.heading('An application');
  const volume = await makeVolume(scene);
  const content = await writeContent(scene);
  const started = await startApplication(scene, SOURCE);
  telling.step(`it has ${started.length} commits acknowledged, each logged outside the volume`);
  telling.heading('The move');
  const order = await orderMove(scene);
  const moved = await move(scene, order);
  telling.heading('The proof');
  await proveAll(scene, { ...moved, volume, content });
  return scene.workload;
}

// ---- before the move -------------------------------------------------------------------------------------------------------------

async function setUp(parts: Play, pool: DemoPool): Promise<Scene> {
  const { stage, telling } = parts;
  const ground = await stage.bringUp();
  const kind = ground === 'folder' ? 'a plain folder' : `an ${ground} filesystem on a disk of its own`;
  telling.step(`a server, a controller and three agents run, each a process of its own; the pool "${pool}" of each node is ${kind}`);
  return { ...parts, pool, workload: await (pool === 'local' ? blockWorkload(parts, ground) : folderWorkload(parts)) };
}

async function folderWorkload({ telling }: Play): Promise<Workload> {
  const { canMount } = await hostAbilities();
  if (!canMount)
    telling.lack(
      'so no block devices, no filesystems of volumes and no mounts are shown, which is what root sees: the volume is a directory, and the application uses it by a link',
    );
  return directoryWorkload(canMount);
}

async function blockWorkload({ stage, telling }: Play, ground: PoolGround): Promise<Workload> {
  const { items } = await stage.client.list(StorageNodes);
  const points = items.every(({ status }) => status?.pools?.['local']?.points === true);
  if (ground === 'folder')
    telling.lack('so no filesystem and no database is shown: a raw image file moves instead, and a writer of checksummed records uses it');
  if (!points)
    telling.lack(
      'the pools lie on a filesystem without reflinks, which has no points in time: the last pass compares everything while the application stands still, so its pause is longer',
    );
  return ground === 'folder' ? rawWorkload(points) : mountedWorkload(ground, points);
}

async function makeVolume(scene: Scene): Promise<Stored<Volume>> {
  const { stage, telling, pool, workload } = scene;
  const spec: Volume['spec'] = { size: SIZE, pool, node: SOURCE, ...workload.volume };
  const { metadata } = await stage.client.create(Volumes, {
    apiVersion: GROUP_VERSION,
    kind: Volumes.kind,
    metadata: { name: VOLUME },
    spec,
  });
  const volume = await eventually(
    scene,
    () => `volume ${VOLUME} does not become available`,
    async () => {
      const seen = await stage.client.get(Volumes, metadata.name);
      return seen.status?.phase === 'Available' ? seen : null;
    },
  );
  await publish(scene, SOURCE);
  telling.step(`volume ${VOLUME} of ${SIZE} is ${workload.given} on ${SOURCE}`);
  return volume;
}

async function publish({ stage }: Scene, node: string): Promise<void> {
  const agent = await stage.agent(node);
  await agent.publish({ volume: VOLUME, target: stage.places.target(node) });
}

/** Its hash. */
async function writeContent({ context, stage, telling, workload }: Scene): Promise<string> {
  const tell = (written: number): void =>
    telling.progress({ key: 'content', text: `writing ${humanBytes(BigInt(written))}`, share: written / CONTENT });
  const hash = await workload.write(stage.places.target(SOURCE), tell, context.interrupted);
  telling.step(`${humanBytes(BigInt(CONTENT))} of random bytes are written: ${workload.content}, sha256 ${hash.slice(0, 16)}…`);
  return hash;
}

/** The log, once it has grown by some commits. */
async function startApplication(scene: Scene, node: string): Promise<Acknowledged[]> {
  const { stage, telling, workload } = scene;
  const before = stage.acknowledged().length;
  const pid = stage.startApplication(workload.words(stage.places.target(node), stage.places.acknowledged));
  telling.step(`the application runs on ${node} (process ${pid}) and commits without pause: ${workload.application}`);
  return grown(scene, before + SOME);
}

const grown = (scene: Scene, count: number): Promise<Acknowledged[]> =>
  eventually(
    scene,
    () => 'the application commits nothing',
    async () => {
      const log = scene.stage.acknowledged();
      return log.length >= count ? log : null;
    },
  );

// ---- the move --------------------------------------------------------------------------------------------------------------------

async function orderMove({ stage, telling, workload }: Scene): Promise<Stored<Move>> {
  const move = await stage.client.create(Moves, {
    apiVersion: GROUP_VERSION,
    kind: Moves.kind,
    metadata: { name: 'demo' },
    spec: {
      volume: VOLUME,
      target: TARGET,
      bandwidth: String(BANDWIDTH),
      allowedPause: workload.pointed ? ALLOWED_PAUSE.points : ALLOWED_PAUSE.noPoints,
      // However slow this machine is, the demo goes on.
      stallPolicy: 'CutOver',
    },
  });
  telling.step(`the move to ${TARGET} is ordered, at no more than ${humanRate(BANDWIDTH)}, so that it can be watched`);
  return move;
}

interface Moved {
  order: Stored<Move>;
  /** Lines of the log when the application was stopped. */
  before: number;
  cost: Pick<Cost, 'whileCopying' | 'pauseMs'>;
}

async function move(scene: Scene, order: Stored<Move>): Promise<Moved> {
  const { stage, telling } = scene;
  const atOrder = stage.acknowledged().length;
  await interruptCopy(scene, order);
  await followMove(scene, order, (seen) => (phaseOf(seen) === 'ReadyToCutOver' ? seen : null));
  const whileCopying = stage.acknowledged().length - atOrder;
  telling.step(`all but a small rest is on ${TARGET}; meanwhile the application had ${whileCopying} commits acknowledged`);
  const before = await cutOver(scene, order);
  const log = await startApplication(scene, TARGET);
  const pauseMs = pauseOf(log, before);
  telling.step(`it goes on with commit ${log[before]?.number}, after ${log[before - 1]?.number} on ${SOURCE}`);
  return { order, before, cost: { whileCopying, pauseMs } };
}

/** The target's agent is killed in the middle, and started again. */
async function interruptCopy(scene: Scene, order: Stored<Move>): Promise<void> {
  const { stage, telling } = scene;
  const live = await followMove(scene, order, middle);
  if (live === 'late') return telling.step('the copy was over before it could be interrupted');
  const pid = await stage.killAgent(TARGET);
  telling.step(`${TARGET}'s agent is killed (SIGKILL, process ${pid}) after ${bytesOf(live.bytesDone)} of ${bytesOf(live.bytesTotal)}`);
  await stage.startMissing();
  telling.step('it is started again');
  await followMove(scene, order, (seen, now) => (now?.activity === 'copying' || isPast(seen) ? now : null));
  telling.step('the copy goes on where it was');
}

const isPast = (move: Move): boolean => phaseOf(move) !== 'Syncing' || (move.status?.round ?? 0) > 0;

function middle(move: Move, live: Fetching | null): Fetching | 'late' | null {
  if (live?.activity === 'copying' && Number(live.bytesDone) >= KILLED_AT) return live;
  return ['ReadyToCutOver', 'Fencing'].includes(phaseOf(move)) ? 'late' : null;
}

/** Lines of the log when the application was stopped. */
async function cutOver(scene: Scene, order: Stored<Move>): Promise<number> {
  const { stage, telling } = scene;
  await stage.stopApplication();
  const before = stage.acknowledged().length;
  telling.step(`the application is stopped after ${before} acknowledged commits, and the volume ${scene.workload.taken} on ${SOURCE}`);
  await (await stage.agent(SOURCE)).unpublish({ volume: VOLUME });
  const over = await followMove(scene, order, (seen) => (isOver(seen) ? seen : null));
  telling.step(`the last changes are copied and proven, the move is committed: epoch ${(over.status?.epoch ?? 0) + 1} is on ${TARGET}`);
  await publish(scene, TARGET);
  return before;
}

// ---- the proof -------------------------------------------------------------------------------------------------------------------

async function proveAll(scene: Scene, at: Moved & { volume: Stored<Volume>; content: string }): Promise<void> {
  const { telling, stage } = scene;
  const { order, before, content, cost } = at;
  const judged = await followMove(scene, order, (seen) => (isScrubbed(seen) ? seen : null));
  await stage.stopApplication();
  const log = stage.acknowledged();
  const { incoming = {} } = judged.status ?? {};
  telling.claim(
    `the copy went on after the SIGKILL: ${bytesOf(incoming.bytesResumed)} were there and not sent again`,
    BigInt(incoming.bytesResumed ?? 0) > 0n,
  );
  const commits = proveCommits(scene, log);
  telling.claim(`the application went on on ${TARGET} where it was on ${SOURCE}`, goesOn(log, before));
  await proveContent(scene, content);
  await proveSource(scene, { pool: scene.pool, move: judged, volume: at.volume, source: SOURCE });
  telling.heading('What it cost');
  for (const row of summary(judged, { ...cost, size: at.volume.status?.capacity ?? '0', ...commits })) telling.line(`  ${row}`);
}

const isScrubbed = (move: Move): boolean => !['Running', undefined].includes(move.status?.incoming?.scrub?.state);

function proveCommits({ stage, telling, workload }: Scene, log: Acknowledged[]): Pick<Cost, 'proof'> {
  const held = workload.read(stage.places.target(TARGET));
  const proof = prove(log, held.commits);
  const { acknowledged, found, lost, changed } = proof;
  telling.claim(
    `every acknowledged commit is ${workload.commits} on ${TARGET} with its checksum: ${acknowledged} acknowledged, ${found} found`,
    isProven(proof),
    `lost: ${lost.slice(0, 10).join(', ') || 'none'}; with another content: ${changed.slice(0, 10).join(', ') || 'none'}`,
  );
  telling.claim(held.wholeness.text, held.wholeness.holds);
  return { proof };
}

async function proveContent({ context, stage, telling, workload }: Scene, content: string): Promise<void> {
  const hash = await workload.hash(stage.places.target(TARGET), context.interrupted).catch((error: unknown) => messageOf(error));
  telling.claim(
    `the ${humanBytes(BigInt(CONTENT))} written before have the same sha256 on ${TARGET}: ${content.slice(0, 16)}…`,
    hash === content,
    `there it is ${hash}`,
  );
}
