// What else moves a volume from disk to disk: the same image file, read and written by programs that others wrote, every one up to the data
// being on the target's disk. Knows nothing of ours.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../src/host/run.ts';
import type { Ground } from './ground.ts';
import type { Ways } from './ours.ts';

const LONG = { timeout: 900_000 };

export interface Reference {
  name: string;
  /** The programs that it needs, and their Debian packages. */
  needs: { [program: string]: string };
  /** So slow that one round of it says enough. */
  once?: boolean;
  /** Seconds for the whole image. */
  measure(job: Job): Promise<number>;
}

export interface Job {
  ground: Ground;
  ways: Ways;
  image: string;
  size: number;
}

/** A file of that size with its blocks allocated, as a thick target has them, and nothing of the source in the page cache. */
async function prepared({ ground, image, size }: Job): Promise<string> {
  const path = join(ground.target, 'reference');
  await rm(path, { force: true });
  await using file = await open(path, 'w');
  await file.truncate(size);
  await run('fallocate', ['--length', String(size), path]);
  await run('dd', [`if=${image}`, 'iflag=nocache', 'count=0', 'status=none']);
  return path;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await act();
  return (performance.now() - began) / 1000;
}

const inside = (namespace: string | undefined, argv: string[]): string[] =>
  namespace === undefined ? argv : ['ip', 'netns', 'exec', namespace, ...argv];

const command = (argv: string[]): Promise<unknown> => run(argv[0] as string, argv.slice(1), LONG);

const dd = (of: string[]): Promise<unknown> => run('dd', ['bs=4M', 'status=none', ...of], LONG);

export const ddCopy: Reference = {
  name: 'dd direct to direct',
  needs: { dd: 'coreutils' },
  measure: async (job) => {
    const target = await prepared(job);
    return timed(() => dd([`if=${job.image}`, `of=${target}`, 'iflag=direct', 'oflag=direct', 'conv=notrunc,fsync']));
  },
};

export const ddRead: Reference = {
  name: 'dd read alone',
  needs: { dd: 'coreutils' },
  measure: (job) => timed(() => dd([`if=${job.image}`, 'of=/dev/null', 'iflag=direct'])),
};

export const ddWrite: Reference = {
  name: 'dd write alone',
  needs: { dd: 'coreutils' },
  measure: async (job) => {
    const target = await prepared(job);
    return timed(() => dd(['if=/dev/zero', `of=${target}`, `count=${job.size / 4 / 1024 / 1024}`, 'oflag=direct', 'conv=notrunc,fsync']));
  },
};

export const tcp: Reference = {
  name: 'raw TCP (iperf3)',
  needs: { iperf3: 'iperf3' },
  measure: async ({ ways, size }) => {
    const server = start(inside(ways.namespaces?.[1], ['iperf3', '-s', '-1', '-B', hostOfTarget(ways), '-p', '5299']));
    await listening(server, 5299);
    const client = ['iperf3', '-c', hostOfTarget(ways), '-p', '5299', '-n', String(size), '-l', '1M', '-J'];
    const [program, ...args] = inside(ways.namespaces?.[0], client);
    const { stdout } = await run(program as string, args, LONG);
    await ended(server);
    const { end } = JSON.parse(stdout) as { end: { sum_received: { bits_per_second: number } } };
    return (size * 8) / end.sum_received.bits_per_second;
  },
};

/** iperf3 sends from client to server: the client is where the source is. */
const hostOfTarget = (ways: Ways): string => (ways.namespaces ? ways.host.replace(/1$/u, '2') : ways.host);

const rsync = (name: string, options: string[]): Reference => ({
  name,
  needs: { rsync: 'rsync' },
  measure: async (job) => {
    const { ground, ways, image } = job;
    const target = await prepared(job);
    const configuration = join(ground.folder, 'rsyncd.conf');
    await writeFile(configuration, `use chroot = no\nuid = 0\ngid = 0\n[source]\npath = ${ground.source}\nread only = yes\n`);
    const daemon = ['rsync', '--daemon', '--no-detach', `--config=${configuration}`, '--port=5298', `--address=${ways.host}`];
    const server = start(inside(ways.namespaces?.[0], daemon));
    try {
      await listening(server, 5298);
      const from = `rsync://${ways.host}:5298/source/${image.split('/').at(-1)}`;
      return await timed(() => command(inside(ways.namespaces?.[1], ['rsync', ...options, '--fsync', from, target])));
    } finally {
      await stopped(server);
    }
  },
});

export const rsyncWhole = rsync('rsync daemon -W --inplace', ['-W', '--inplace']);
export const rsyncArchive = { ...rsync('rsync daemon -aHSxz', ['-aHSxz']), once: true };

export const nbdcopy: Reference = {
  name: 'nbdkit to nbdcopy, TLS',
  needs: { nbdkit: 'nbdkit', nbdcopy: 'libnbd-bin', psktool: 'gnutls-bin' },
  measure: async (job) => {
    const { ground, ways, image } = job;
    const target = await prepared(job);
    const keys = join(ground.folder, 'keys');
    await mkdir(keys, { recursive: true });
    await run('psktool', ['-u', 'bench', '-p', join(keys, 'keys.psk')]);
    const tls = ['--tls=require', `--tls-psk=${join(keys, 'keys.psk')}`];
    const server = start(
      inside(ways.namespaces?.[0], ['nbdkit', '-f', '-r', '-i', ways.host, '-p', '5297', ...tls, 'file', image, 'cache=none']),
    );
    try {
      await listening(server, 5297);
      const from = `nbds://bench@${ways.host}:5297/?tls-psk-file=${join(keys, 'keys.psk')}`;
      return await timed(() => command(inside(ways.namespaces?.[1], ['nbdcopy', '--flush', from, target])));
    } finally {
      await stopped(server);
    }
  },
};

export const socat: Reference = {
  name: 'dd | socat | dd',
  needs: { socat: 'socat' },
  measure: async (job) => {
    const { ways, image } = job;
    const target = await prepared(job);
    const listen = start(
      inside(ways.namespaces?.[1], ['socat', '-u', '-b', '1048576', `TCP-LISTEN:5296,bind=${hostOfTarget(ways)}`, '-']),
      'out',
    );
    const write = spawn('dd', ['bs=4M', 'status=none', `of=${target}`, 'iflag=fullblock', 'oflag=direct', 'conv=notrunc,fsync'], {
      stdio: [listen.stdout, 'ignore', 'inherit'],
    });
    await listening(listen, 5296);
    return timed(async () => {
      const read = spawn('dd', ['bs=4M', 'status=none', `if=${image}`, 'iflag=direct'], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [program, ...args] = inside(ways.namespaces?.[0], ['socat', '-u', '-b', '1048576', '-', `TCP:${hostOfTarget(ways)}:5296`]);
      const send = spawn(program as string, args, { stdio: [read.stdout, 'ignore', 'inherit'] });
      await Promise.all([ended(send), ended(write)]);
    });
  },
};

function start(argv: string[], what: 'out' | 'nothing' = 'nothing'): ChildProcess {
  const stdio: StdioOptions = ['ignore', what === 'out' ? 'pipe' : 'ignore', 'inherit'];
  return spawn(argv[0] as string, argv.slice(1), { stdio });
}

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once('exit', () => resolve()) : resolve()));

async function stopped(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  await ended(child);
}

/** Its process listens there. Looked up without connecting: the first connection is the only one that some of them take. */
async function listening(child: ChildProcess, port: number): Promise<void> {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`;
  for (let left = 500; left > 0; left -= 1) {
    const sockets = await readFile(`/proc/${child.pid}/net/tcp`, 'latin1').catch(() => '');
    if (sockets.includes(local)) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${child.spawnfile} does not listen at port ${port}`);
}
