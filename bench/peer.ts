// A node's process (node.ts) as the measuring process sees it: started, perhaps in a network namespace, asked one thing at a time, ended.
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Answer, Order, Reply } from './node.ts';

const PROGRAM = fileURLToPath(new URL('node.ts', import.meta.url));

interface Waiting {
  resolve: (answer: never) => void;
  reject: (error: Error) => void;
}

export class Peer {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #asked = 0;

  constructor(namespace: string | null) {
    // For profiles: options that node takes besides.
    const more = (process.env['FLOCK_BENCH_NODE_OPTIONS'] ?? '').split(' ').filter((option) => option !== '');
    const node = [process.execPath, ...more, PROGRAM];
    const argv = namespace === null ? node : ['ip', 'netns', 'exec', namespace, ...node];
    this.#child = spawn(argv[0] as string, argv.slice(1), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // As bin/flockctl starts an agent.
      env: { UV_THREADPOOL_SIZE: '16', MALLOC_ARENA_MAX: '2', ...process.env },
    });
    this.#child.on('message', (message) => this.#answered(message as Reply));
    this.#child.on('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('a process of the benchmark ended'));
    });
  }

  ask<O extends keyof Order>(what: O, order: Order[O]): Promise<Answer[O]> {
    return new Promise((resolve, reject) => {
      const id = this.#asked++;
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, what, order });
    });
  }

  #answered({ id, answer, failure }: Reply): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (failure === undefined) waiting?.resolve(answer as never);
    else waiting?.reject(new Error(failure));
  }

  /** As a power cut would: nothing is closed. */
  async kill(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.disconnect();
    await ended;
  }
}
