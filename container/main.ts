// The command `npm run image`: reads its options and says what it wrote.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ARCHITECTURES, writeFlockImage } from './image.ts';

const { values } = parseArgs({
  options: {
    arch: { type: 'string', default: process.arch === 'arm64' ? 'arm64' : 'amd64' },
    out: { type: 'string', default: 'flock-image.tar' },
    name: { type: 'string', default: 'localhost/flock:dev' },
  },
});
const architecture = ARCHITECTURES.find((one) => one === values.arch);
if (!architecture) throw new Error(`--arch ${values.arch} is not possible; use ${ARCHITECTURES.join(' or ')}`);
const archive = resolve(values.out);
await writeFlockImage(archive, values.name, architecture);
const { size } = await stat(archive);
process.stdout.write(`${archive}: ${values.name} for ${architecture}, ${Math.round(size / 1e6)} MB\n`);
