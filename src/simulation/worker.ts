// A thread that plays histories: a seed in, its outcome out.
import { parentPort } from 'node:worker_threads';
import { simulate } from './simulate.ts';

parentPort?.on('message', (seed: number) => {
  void simulate(seed).then((outcome) => parentPort?.postMessage(outcome));
});
