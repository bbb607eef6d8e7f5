// What the controller counts, as Prometheus text: flock_controller_*. Units are in the names.
import { Counter, Gauge, Registry } from 'prom-client';

export interface ControllerMetrics {
  events: Counter<'reason' | 'type'>;
  queueDepth: Gauge<'queue'>;
  leading: Gauge;
  text(): Promise<string>;
}

export function controllerMetrics(): ControllerMetrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    events: new Counter({
      name: 'flock_controller_events_total',
      help: 'Things that the controller did or refused, by reason',
      labelNames: ['reason', 'type'],
      registers,
    }),
    queueDepth: new Gauge({
      name: 'flock_controller_queue_depth',
      help: 'Objects that wait to be looked at',
      labelNames: ['queue'],
      registers,
    }),
    leading: new Gauge({ name: 'flock_controller_leading', help: '1 while this replica leads', registers }),
    text: () => registry.metrics(),
  };
}
