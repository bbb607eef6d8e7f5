// CSI Node: a volume is staged once for its node, by the agent's own publishing with all its judgement, and bound from there to the path of
// each user. Knows mounts by the verbs that it is given.
import { status } from '@grpc/grpc-js';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { LocalNode } from '../agent/local-node.ts';
import type { Publications } from '../agent/publications.ts';
import type { InUse } from '../agent/publishing.ts';
import type { Clock } from '../model/clock.ts';
import { isReason } from '../model/errors.ts';
import { accessOf, whyNotUsed, type Access } from './access.ts';
import type { Binds, Usage } from './binds.ts';
import { invalid, Refused } from './errors.ts';
import {
  NodeServiceCapability_RPC_Type as Capability,
  NodeService,
  VolumeUsage_Unit as Unit,
  type NodeExpandVolumeRequest,
  type NodeExpandVolumeResponse,
  type NodeGetInfoResponse,
  type NodeGetVolumeStatsRequest,
  type NodeGetVolumeStatsResponse,
  type NodePublishVolumeRequest,
  type NodeServer,
  type NodeStageVolumeRequest,
  type NodeUnpublishVolumeRequest,
  type NodeUnstageVolumeRequest,
  type VolumeCapability,
  type VolumeCondition,
  type VolumeUsage,
} from './generated/csi.ts';
import { pathOf, volumeIdOf } from './ids.ts';
import { conditionOf } from './list-volumes.ts';
import { NODE_KEY, poolKey } from './names.ts';
import { windowOf } from './sizes.ts';
import type { Service } from './socket.ts';
import { implementation, type CallOptions, type Methods } from './unary.ts';

export interface NodePorts extends CallOptions {
  local: LocalNode;
  binds: Binds;
  /** Paths of users, by volume; kept over restarts. */
  targets: Publications;
  clock: Clock;
}

const CAPABILITIES: readonly Capability[] = [
  Capability.STAGE_UNSTAGE_VOLUME,
  Capability.GET_VOLUME_STATS,
  Capability.EXPAND_VOLUME,
  Capability.VOLUME_CONDITION,
  Capability.SINGLE_NODE_MULTI_WRITER,
];

export function nodeService(ports: NodePorts): Service {
  return { definition: NodeService, implementation: implementation<NodeServer>(new NodeCalls(ports).methods(), ports) };
}

/** Of a label of Kubernetes, which a topology becomes. */
const LONGEST_VALUE = 63;

/** For holders that are gone in a moment, and between two tries, ms. */
const PATIENCE = 5_000;
const PAUSE = 100;

const onVolume = ({ volumeId }: { volumeId: string }): string => volumeId;

class NodeCalls {
  readonly #ports: NodePorts;

  constructor(ports: NodePorts) {
    this.#ports = ports;
  }

  methods(): Methods<NodeServer> {
    return {
      nodeGetCapabilities: {
        answer: async () => ({ capabilities: CAPABILITIES.map((type) => ({ type: { $case: 'rpc', value: { type } } })) }),
      },
      nodeGetInfo: { answer: async () => this.#info() },
      nodeStageVolume: { on: onVolume, answer: (asked) => this.#stage(asked) },
      nodeUnstageVolume: { on: onVolume, answer: (asked) => this.#unstage(asked) },
      nodePublishVolume: { on: onVolume, answer: (asked) => this.#publish(asked) },
      nodeUnpublishVolume: { on: onVolume, answer: (asked) => this.#unpublish(asked) },
      nodeExpandVolume: { on: onVolume, answer: (asked) => this.#expand(asked) },
      nodeGetVolumeStats: { answer: (asked) => this.#stats(asked) },
    };
  }

  /** A key's value never changes, for the kubelet would not register the driver any more. */
  #info(): NodeGetInfoResponse {
    const { local } = this.#ports;
    if (local.node.length > LONGEST_VALUE)
      throw new Refused(
        status.FAILED_PRECONDITION,
        `node name ${local.node} is longer than ${LONGEST_VALUE} characters and cannot be a label's value: give the agent a shorter --name`,
      );
    const segments = Object.fromEntries([[NODE_KEY, local.node], ...local.pools().map((pool) => [poolKey(pool), 'true'])]);
    return { nodeId: local.node, maxVolumesPerNode: 0n, accessibleTopology: { segments } };
  }

  async #stage(asked: NodeStageVolumeRequest): Promise<object> {
    const volume = volumeIdOf(asked);
    const staging = pathOf('staging_target_path', asked.stagingTargetPath);
    const access = this.#access(volume, asked.volumeCapability);
    await mkdir(staging, { recursive: true, mode: 0o750 });
    await this.#ports.local.publish({ volume, target: stagedAt(staging, access.volumeMode), readOnly: access.readOnly, staged: true });
    return {};
  }

  /** What the volume is asked to be used as, and can be. */
  #access(name: string, capability: VolumeCapability | undefined): Access {
    const access = accessOf(capability);
    const volume = this.#ports.local.volume(name);
    const why = volume ? whyNotUsed(volume, access) : null;
    if (why !== null) throw invalid(why);
    return access;
  }

  async #unstage(asked: NodeUnstageVolumeRequest): Promise<object> {
    const { local, binds, targets } = this.#ports;
    const volume = volumeIdOf(asked);
    const staging = pathOf('staging_target_path', asked.stagingTargetPath);
    const used = targets.of(volume).map(({ target }) => target);
    if (used.length > 0) throw new Refused(status.FAILED_PRECONDITION, `volume ${volume} is still published at ${used.join(', ')}`);
    for (const target of [stagedAt(staging, 'Filesystem'), stagedAt(staging, 'Block')])
      await this.#patiently(() => local.unpublish({ volume, target }));
    if (await binds.isMounted(staging))
      throw new Refused(status.FAILED_PRECONDITION, `something that is not volume ${volume} is mounted at ${staging}; unmount it`);
    return {};
  }

  /** Whatever looks at all devices of a machine, as udev does, has each open for a moment. */
  async #patiently(work: () => Promise<void>): Promise<void> {
    const { clock } = this.#ports;
    for (const end = clock.monotonic() + PATIENCE; ; await clock.sleep(PAUSE)) {
      try {
        return await work();
      } catch (error) {
        if (!isReason(error, 'InUse') || clock.monotonic() > end) throw error;
      }
    }
  }

  async #publish(asked: NodePublishVolumeRequest): Promise<object> {
    const { binds, targets } = this.#ports;
    const volume = volumeIdOf(asked);
    const target = pathOf('target_path', asked.targetPath);
    const access = this.#access(volume, asked.volumeCapability);
    const staged = await this.#staged(volume, stagedAt(pathOf('staging_target_path', asked.stagingTargetPath), access.volumeMode));
    const readOnly = asked.readonly || access.readOnly || access.flags.includes('ro') || staged.readOnly;
    if (readOnly && access.volumeMode === 'Block')
      throw invalid('a block volume cannot be published read-only: a device node has no such mode');
    this.#refuseTaken(volume, target, { access, readOnly });
    await targets.add(volume, { target, readOnly });
    try {
      if (access.volumeMode === 'Block') await binds.beDevice(staged.device, target);
      else await binds.beBound(staged.path, target, [...access.flags.filter((flag) => flag !== 'rw'), ...(readOnly ? ['ro'] : [])]);
    } catch (error) {
      if (!(await binds.isMounted(target))) await targets.remove(volume, target);
      throw error;
    }
    return {};
  }

  /** Proven by what is mounted: else a user would write to the disk below an empty folder. */
  async #staged(volume: string, path: string): Promise<{ path: string; device: string; readOnly: boolean }> {
    const used = await this.#ports.local.published(volume);
    const publication = used?.publications.find(({ target }) => target === path);
    if (!used?.device || !publication)
      throw new Refused(status.FAILED_PRECONDITION, `volume ${volume} is not staged at ${path}; stage it there first`);
    if (!(await this.#ports.binds.isOf(path, used.device)))
      throw new Refused(
        status.FAILED_PRECONDITION,
        `volume ${volume} was staged at ${path}, but is not mounted there any more; stage it again`,
      );
    return { path, device: used.device, readOnly: publication.readOnly };
  }

  #refuseTaken(volume: string, target: string, { access, readOnly }: { access: Access; readOnly: boolean }): void {
    const { targets } = this.#ports;
    const owner = targets.at(target);
    if (owner !== null && owner !== volume) throw new Refused(status.FAILED_PRECONDITION, `volume ${owner} is published at ${target}`);
    const all = targets.of(volume);
    const others = all.filter((each) => each.target !== target).map((each) => each.target);
    if (access.exclusive && others.length > 0)
      throw new Refused(status.FAILED_PRECONDITION, `volume ${volume} is for one pod at a time, and is published at ${others.join(', ')}`);
    if (all.some((each) => each.target === target && each.readOnly !== readOnly))
      throw new Refused(status.ALREADY_EXISTS, `volume ${volume} is published at ${target} ${readOnly ? 'for writing' : 'read-only'}`);
  }

  async #unpublish(asked: NodeUnpublishVolumeRequest): Promise<object> {
    const { binds, targets } = this.#ports;
    const volume = volumeIdOf(asked);
    const target = pathOf('target_path', asked.targetPath);
    if (targets.at(target) !== volume && (await this.#isForeign(volume, target)))
      throw new Refused(status.FAILED_PRECONDITION, `what is mounted at ${target} is not volume ${volume}; it is left as it is`);
    await binds.beGone(target);
    await targets.remove(volume, target);
    return {};
  }

  async #isForeign(volume: string, target: string): Promise<boolean> {
    const { binds, local } = this.#ports;
    if (!(await binds.isMounted(target))) return false;
    const device = (await local.published(volume))?.device;
    return !device || !(await binds.isOf(target, device));
  }

  async #expand(asked: NodeExpandVolumeRequest): Promise<NodeExpandVolumeResponse> {
    const volume = volumeIdOf(asked);
    const { required } = windowOf(asked.capacityRange);
    if (asked.volumePath === '') throw invalid('volume_path is missing');
    const used = await this.#used(volume);
    if (used.size < required)
      throw new Refused(
        status.UNAVAILABLE,
        `volume ${volume} has ${used.size} bytes and is to have ${required}; try again when it has grown`,
      );
    if (used.volumeMode !== 'Block') await this.#ports.local.fill(volume);
    return { capacityBytes: used.size };
  }

  async #used(volume: string): Promise<InUse> {
    const used = await this.#ports.local.published(volume);
    if (!used) throw new Refused(status.NOT_FOUND, `volume ${volume} is not in use on node ${this.#ports.local.node}`);
    return used;
  }

  async #stats(asked: NodeGetVolumeStatsRequest): Promise<NodeGetVolumeStatsResponse> {
    const { binds, targets, local } = this.#ports;
    const volume = volumeIdOf(asked);
    if (asked.volumePath === '') throw invalid('volume_path is missing');
    const used = await this.#used(volume);
    const path = asked.volumePath;
    if (![...targets.of(volume), ...used.publications].some(({ target }) => target === path))
      throw new Refused(status.NOT_FOUND, `volume ${volume} is not at ${path}`);
    if (!used.device || !(await binds.isOf(path, used.device))) return { usage: [], volumeCondition: unmounted(volume, path) };
    const record = local.volume(volume);
    const volumeCondition = record ? conditionOf(record) : { abnormal: true, message: `there is no record of volume ${volume}` };
    if (used.volumeMode !== 'Block') return { usage: usageOf(await binds.usage(path)), volumeCondition };
    const total = await binds.size(used.device);
    return { usage: [{ unit: Unit.BYTES, total, used: 0n, available: 0n }], volumeCondition };
  }
}

/** A device cannot be at a folder: it is in it. */
const stagedAt = (staging: string, mode: Access['volumeMode']): string => (mode === 'Block' ? join(staging, 'device') : staging);

const unmounted = (volume: string, path: string): VolumeCondition => ({
  abnormal: true,
  message: `volume ${volume} is not mounted at ${path} any more: what is written there is on another disk`,
});

const usageOf = ({ bytes, inodes }: Usage): VolumeUsage[] => [
  { unit: Unit.BYTES, ...bytes },
  { unit: Unit.INODES, ...inodes },
];
