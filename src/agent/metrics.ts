// What the agent counts, as Prometheus text: flock_agent_*. Units are in the names.
import { Counter, Gauge, Registry } from 'prom-client';

export interface AgentMetrics {
  events: Counter<'reason' | 'type'>;
  bytesServed: Counter;
  queueDepth: Gauge;
  pressure: Gauge<'resource'>;
  ceiling: Gauge;
  text(): Promise<string>;
}

export function agentMetrics(node: string): AgentMetrics {
  const registry = new Registry();
  registry.setDefaultLabels({ node });
  const registers = [registry];
  return {
    events: new Counter({
      name: 'flock_agent_events_total',
      help: 'Things that the agent did or refused, by reason',
      labelNames: ['reason', 'type'],
      registers,
    }),
    bytesServed: new Counter({ name: 'flock_agent_served_bytes_total', help: 'Payload bytes sent to other nodes', registers }),
    queueDepth: new Gauge({ name: 'flock_agent_queue_depth', help: 'Volumes that wait to be looked at', registers }),
    pressure: new Gauge({
      name: 'flock_agent_pressure_ratio',
      help: 'Share of the last second of background copying in which tasks of this machine waited',
      labelNames: ['resource'],
      registers,
    }),
    ceiling: new Gauge({
      name: 'flock_agent_background_ceiling_bytes_per_second',
      help: 'What all background copying of this node may take now; +Inf: all it gets',
      registers,
    }),
    text: () => registry.metrics(),
  };
}
