// A controller process: its parts from its options. Nothing is decided here.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Client } from '../api/client.ts';
import { eventRecorder } from '../api/event-recorder.ts';
import type { Log } from '../api/log.ts';
import { serveMetrics } from '../api/metrics-server.ts';
import { DEFAULT_CAPS, type Caps } from '../decide/moves.ts';
import { systemClock } from '../model/clock.ts';
import { killAt, type CrashPoint } from '../model/crash.ts';
import { runControllers } from './controller.ts';
import { controllerMetrics } from './metrics.ts';

export interface RunControllerOptions {
  client: Client;
  log: Log;
  /** Defaults: one copying move in and one out a node, 16 in all. */
  caps?: Partial<Caps>;
  /** Called at the named places between two writes; by default FLOCK_CRASH_AT says where to end. */
  crash?: CrashPoint;
  /** Where to serve /metrics; nowhere by default. */
  metrics?: { host: string; port: number };
}

/** Runs until the signal aborts. */
export async function runController(options: RunControllerOptions, signal: AbortSignal): Promise<void> {
  const { client, log } = options;
  const identity = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const recorder = eventRecorder({ client, component: 'flock-controller', instance: identity, clock: systemClock, log });
  const metrics = controllerMetrics();
  const server = options.metrics ? await serveMetrics(options.metrics, () => metrics.text()) : null;
  try {
    await runControllers(
      {
        client,
        identity,
        caps: { ...DEFAULT_CAPS, ...options.caps },
        clock: systemClock,
        random: Math.random,
        crash: options.crash ?? killAt(process.env.FLOCK_CRASH_AT),
        log,
        metrics,
        tell: (about, type, reason, message) => {
          metrics.events.inc({ reason, type });
          recorder.record(about, type, reason, message);
        },
      },
      signal,
    );
  } finally {
    await recorder.flush();
    server?.close();
  }
}
