// Stands for an agent that makes points in time, one after the other, until it is killed: `freezing.ts GROUP THIN_POOL|- COPY`. It says each
// that it has made. See killed.ts.
import { openLvmPool } from '../../src/pools/lvm-open.ts';
import { thickLayout } from '../../src/pools/lvm-room.ts';

const [volumeGroup = '', thinPool = '-', copy = ''] = process.argv.slice(2);
const policy = { reserve: '0', overcommit: null, snapshotReserve: '20%', autoextend: null, layout: thickLayout([]) };
const pool = await openLvmPool({
  name: 'local',
  volumeGroup,
  thinPool: thinPool === '-' ? null : thinPool,
  policy,
  tools: 'image',
  journals: '/nonexistent',
  uuid: null,
});
for (const point of (await pool.scan()).copies.flatMap(({ points }) => points)) await pool.release(copy, point);
for (let count = 0; ; count += 1) {
  await pool.freeze(copy, `p${count}`);
  process.stdout.write(`p${count}\n`);
  await pool.release(copy, `p${count}`);
}
