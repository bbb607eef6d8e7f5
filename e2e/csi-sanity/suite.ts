// The conformance suite of CSI drivers, csi-sanity, against a controller and an agent in this process: every spec passes, and those that are
// skipped are named here with the reason. Must not know what the pool lies on.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { serveController } from '../../src/csi/serve-controller.ts';
import { serveNode } from '../../src/csi/serve-node.ts';
import { systemClock } from '../../src/model/clock.ts';
import { afterwards } from '../../src/testing/afterwards.ts';
import { startEngine, type Engine } from '../../src/testing/engine.ts';
import { needsRoot, temporaryFolder } from '../../src/testing/folders.ts';
import { keptLog } from '../../src/testing/kept-log.ts';

const MEBI = 2 ** 20;

/** Specs that do not apply: a part of their name, and why. */
const SKIPPED: [part: RegExp, why: string][] = [
  [/snapshot with accessibility requirements/u, 'SNAPSHOT_ACCESSIBILITY_CONSTRAINTS is not advertised: a snapshot is where its volume is'],
  [/GroupController/u, 'groups of snapshots are not advertised'],
  [/attribute class|ControllerModifyVolume|ModifyVolume/u, 'there are no parameters that can be changed later'],
  [/more volumes than the node max attach limit/u, 'a node has no such limit'],
  [/already published but is incompatible/u, 'PUBLISH_READONLY is not advertised: a volume is read-only where it is mounted so'],
  [/pagination should detect volumes added between pages/u, 'the suite has it switched off; src/csi/controller.test.ts shows it'],
  [/VolumeHealth|StorageHealth/u, 'these calls are of CSI 1.13; conditions are told as in 1.12'],
];

interface Spec {
  ContainerHierarchyTexts: string[] | null;
  LeafNodeText: string;
  LeafNodeType: string;
  State: string;
  Failure?: { Message: string };
}

interface Suite {
  specs: Spec[];
  output: string;
}

export interface Sanity {
  /** For people. */
  pool: string;
  /** A pool's configuration besides name and path. */
  configuration: object;
  accessType: 'mount' | 'block';
  /** Of volumes that are mounted, and how large all are, MiB. */
  filesystem: 'xfs' | 'ext4';
  size: number;
  /** Specs of what that pool cannot do, though the driver can: they are not run. */
  impossible?: RegExp;
  /** Path of csi-sanity. */
  program: () => Promise<string>;
}

async function runSuite(
  t: TestContext,
  { configuration, accessType, filesystem, size, impossible, program }: Sanity,
): Promise<{ suite: Suite; engine: Engine }> {
  const folder = await temporaryFolder(t);
  const at = (name: string): string => join(folder, name);
  await mkdir(at('agent'));
  const node = serveNode({ socket: at('node.sock'), folder: at('agent'), log: keptLog(), version: '0' });
  const engine = await startEngine(t, {
    nodes: ['node-1'],
    filesystem: { type: 'xfs', size: 6n * 2n ** 30n },
    pool: configuration,
    agent: () => ({ alongside: node }),
  });
  const controller = { socket: at('controller.sock'), client: engine.client, clock: systemClock, random: Math.random };
  const endpoint = await serveController({ ...controller, log: keptLog(), version: '0' });
  afterwards(t, () => endpoint.close());
  await writeFile(at('parameters'), `pool: local\ncsi.storage.k8s.io/fstype: ${filesystem}\n`);
  const words = [
    `--csi.endpoint=unix://${at('node.sock')}`,
    `--csi.controllerendpoint=unix://${at('controller.sock')}`,
    `--csi.mountdir=${at('target')}`,
    `--csi.stagingdir=${at('staging')}`,
    `--csi.testvolumeparameters=${at('parameters')}`,
    `--csi.testvolumeaccesstype=${accessType}`,
    `--csi.testvolumesize=${size * MEBI}`,
    `--csi.testvolumeexpandsize=${(size + 80) * MEBI}`,
    `--ginkgo.json-report=${at('report.json')}`,
    '--ginkgo.no-color',
    ...(impossible ? [`--ginkgo.skip=${impossible.source}`] : []),
  ];
  const { stdout, stderr } = await promisify(execFile)(await program(), words, { maxBuffer: 2 ** 26 }).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  const [report] = JSON.parse(await readFile(at('report.json'), 'utf8').catch(() => '[]')) as { SpecReports: Spec[] }[];
  const specs = (report?.SpecReports ?? []).filter(({ LeafNodeType }) => LeafNodeType === 'It');
  return { suite: { specs, output: stdout + stderr }, engine };
}

const nameOf = ({ ContainerHierarchyTexts, LeafNodeText }: Spec): string => [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(' ');

/** One test a spec of the suite, and one more for what is left afterwards. */
export function csiSanity(sanity: Sanity): void {
  const { pool, accessType, impossible } = sanity;
  const skipped: typeof SKIPPED = impossible ? [[impossible, `not with ${pool}`], ...SKIPPED] : SKIPPED;
  test(
    `csi-sanity on ${pool}, with volumes to ${accessType === 'mount' ? 'mount' : 'use as block devices'}`,
    { skip: needsRoot },
    async (t) => {
      const { suite, engine } = await runSuite(t, sanity);
      assert.ok(suite.specs.length > 50, suite.output);
      for (const spec of suite.specs) {
        const name = nameOf(spec);
        const reason = skipped.find(([part]) => part.test(name))?.[1];
        await t.test(reason === undefined ? name : `${name}: ${reason}`, () => {
          if (reason !== undefined) assert.match(spec.State, /^(skipped|pending)$/u);
          else assert.equal(spec.State, 'passed', spec.Failure?.Message);
        });
      }
      const unused = skipped.filter(([part]) => !suite.specs.some((spec) => part.test(nameOf(spec))));
      assert.deepEqual(unused, [], 'these skip nothing');
      await engine.endsClean();
    },
  );
}
