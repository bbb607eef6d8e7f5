// One process of the cluster, as the shipped command starts it, that is killed where it is threatened to be, and started again each time. One
// that ends by itself is a fault. Knows nothing of what it does.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import type { Role } from './points.ts';
import { told, type Threat, type Threats } from './threats.ts';

export interface PartyOrder {
  role: Role | 'server';
  /** Arguments of this very node. */
  words: readonly string[];
  log: string;
  env: { [name: string]: string };
  note: (line: string) => void;
  /** It was killed and is about to be started again. */
  died: () => Promise<void>;
  fault: (why: string) => void;
}

export class Party {
  readonly #order: PartyOrder;
  #threats: Threats;
  #threat: Threat | null = null;
  #child: ChildProcess | null = null;
  #timer: NodeJS.Timeout | null = null;
  #stopping = false;
  /** That began since it started. */
  #stories = 0;

  constructor(order: PartyOrder, threats: Threats) {
    this.#order = order;
    this.#threats = threats;
    this.#start();
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** For the story that begins. One that nothing threatens, or that the story before did not come by, is killed for another. */
  threaten(threats: Threats): void {
    this.#threats = threats;
    const threat = this.#threat;
    this.#stories += 1;
    if (threat && this.#stories < 2) return;
    if (threat) threats.passed(this.#order.role, threat);
    this.#killAfter({ afterMs: 1 });
  }

  #killAfter(threat: { afterMs: number }): void {
    this.#threat = threat;
    this.#timer = setTimeout(() => this.#child?.kill('SIGKILL'), threat.afterMs);
  }

  #start(): void {
    const { role, words, log, env } = this.#order;
    const threat = this.#threats.next(role);
    this.#threat = threat;
    this.#stories = 0;
    const output = openSync(log, 'a', 0o600);
    const at = threat && 'at' in threat ? { FLOCK_CRASH_AT: threat.at } : {};
    const child = spawn(process.execPath, words, {
      stdio: ['pipe', output, output],
      env: { ...process.env, ...env, ...at, FLOCK_TIED: '1' },
      cwd: '/',
    });
    closeSync(output);
    child.stdin?.on('error', () => {});
    this.#child = child;
    child.once('exit', (code, signal) => void this.#ended(code, signal));
    if (threat && 'afterMs' in threat) this.#killAfter(threat);
  }

  async #ended(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    const { role, note, fault, died } = this.#order;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const threat = this.#threat;
    this.#threat = null;
    if (this.#stopping) return;
    if (signal !== 'SIGKILL') return fault(`${role} ended by itself (${signal ?? code})`);
    if (threat) {
      this.#threats.done(role, threat);
      note(`${role} was killed: ${told(threat)}`);
    }
    await died();
    if (!this.#stopping) this.#start();
  }

  /** Stands still until `goOn`, or until it is killed. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }

  goOn(): void {
    this.#child?.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 20_000);
    await ended;
    clearTimeout(late);
  }
}
