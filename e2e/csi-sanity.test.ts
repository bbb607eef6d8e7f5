// csi-sanity on the machine itself, with pools on XFS. Those on LVM are held by csi-lvm.test.ts. Needs root, Go and its module proxy.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { csiSanity } from './csi-sanity/suite.ts';

const program = async (): Promise<string> =>
  (await promisify(execFile)('nice', ['sh', join(import.meta.dirname, 'csi-sanity', 'build')])).stdout.trim();

/** XFS is grown while mounted without a capability that root may lack in a container. */
const of = { filesystem: 'xfs', size: 320, program } as const;

for (const accessType of ['mount', 'block'] as const) csiSanity({ pool: 'a pool of images', configuration: {}, accessType, ...of });
csiSanity({
  pool: 'a pool of directories',
  configuration: { type: 'directory' },
  accessType: 'mount',
  impossible: /[Ss]napshot|volume from an existing source volume/u,
  ...of,
});
