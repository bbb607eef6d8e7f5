// The application of the demo, a process of its own: commits without pause, and after each commit that was acknowledged writes number,
// checksum and time to a log outside the volume. Ends in order on SIGTERM. Knows nothing of Flock.
import { randomBytes } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { whenUntied } from '../local/child.ts';
import { checksumOf, lineOf } from './acknowledged.ts';
import { openDatabase } from './database.ts';
import { openRecords, PAYLOAD } from './records.ts';

const [kind, path = '', log = '', from = '0'] = process.argv.slice(2);
let stopped = false;
const stop = (): void => void (stopped = true);
process.on('SIGTERM', stop);
whenUntied(stop);

const commits = kind === 'database' ? openDatabase(path) : openRecords(path, Number(from));
const acknowledged = openSync(log, 'a');
// A raw file has no room for more than some ten thousand whole blocks: there, a short breath after each.
const [size, breath] = kind === 'database' ? [200, setImmediate] : [PAYLOAD, () => setTimeout(1)];

for (let number = commits.next; !stopped; number += 1) {
  const payload = randomBytes(size);
  commits.commit(number, payload);
  writeSync(acknowledged, lineOf({ number, checksum: checksumOf(number, payload), at: Date.now() }));
  await breath();
}
commits.close();
