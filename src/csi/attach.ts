// ControllerPublishVolume: the volume is there, or it is moved there first and the call lasts as long. To answer early and be asked again would cost
// minutes: who asks waits longer after every refusal. Whether the volume is still wanted there is asked for meanwhile.
import { status } from '@grpc/grpc-js';
import { randomInt } from 'node:crypto';
import { listAll } from '../api/list-all.ts';
import { nextAttachStep, type AttachSeen } from '../decide/attach.ts';
import { asksToCancel, isCommitted, isUnfinished, type Why } from '../decide/observed.ts';
import { turns } from '../host/turns.ts';
import { ifFound, isReason } from '../model/errors.ts';
import { GROUP_VERSION, type Stored } from '../model/meta.ts';
import { Moves, type Move } from '../model/move.ts';
import { Volumes, type Volume } from '../model/volume.ts';
import { codeOfObstacle, Refused } from './errors.ts';
import { existing, nodeNamed } from './records.ts';
import type { CallOptions } from './unary.ts';
import type { VolumeWaits, WaitingPorts } from './waiting.ts';

export interface AttachPorts extends WaitingPorts, CallOptions {
  /** Whether somebody still wants the volume on the node; asked while it is moved there. */
  isWanted: (volume: string, node: string) => Promise<boolean>;
}

/** Between two looks while a move goes on, ms. */
const LOOK = 1_000;
/** Between two questions whether it is still wanted, ms. */
const ASK = 5_000;

export class Attaching {
  readonly #ports: AttachPorts;
  readonly #waits: VolumeWaits;
  /** Two calls for one volume must not order two moves. */
  readonly #inTurn = turns();

  constructor(ports: AttachPorts, waits: VolumeWaits) {
    this.#ports = ports;
    this.#waits = waits;
  }

  /** Resolves when the volume can be staged on the node. */
  async beAttached(volume: string, node: string, ends: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    const signal = AbortSignal.any([ends, this.#waits.stopped]);
    const told = { last: '', asked: clock.monotonic(), ordered: null as string | null };
    for (;;) {
      const step = await this.#inTurn(volume, () => this.#step(volume, node, told.ordered));
      if (step.done) return;
      told.ordered = step.ordered;
      if (step.waits !== told.last) log.info({ volume, node, waits: (told.last = step.waits) }, 'attaching waits');
      await this.#pause(signal, step.waits);
      if (clock.monotonic() - told.asked < ASK) continue;
      told.asked = clock.monotonic();
      if (!(await this.#ports.isWanted(volume, node))) await this.#giveUp(volume, node);
    }
  }

  async #step(name: string, node: string, ordered: string | null): Promise<{ done: boolean; waits: string; ordered: string | null }> {
    const { client } = this.#ports;
    const seen = await this.#seen(name, node, ordered);
    const next = nextAttachStep(seen);
    switch (next.step) {
      case 'there':
        return { done: true, waits: '', ordered };
      case 'wait':
        return { done: false, waits: next.for, ordered };
      case 'cancel':
        await client.patch(Moves, next.move, { spec: { cancel: true } });
        return { done: false, waits: `move ${next.move} to end, which goes elsewhere`, ordered };
      case 'order': {
        // Asked before, too: a call that ended because nobody wanted it is repeated until the attachment is gone.
        if (!(await this.#ports.isWanted(name, node))) throw unwanted(name, node);
        const move = await this.#order(seen.volume, node);
        return { done: false, waits: `move ${move}`, ordered: move };
      }
      case 'refuse':
        throw refusal(next.why);
    }
  }

  async #seen(name: string, node: string, ordered: string | null): Promise<AttachSeen> {
    const volume = await existing(this.#waits, name);
    const record = await nodeNamed(this.#ports.client, node);
    if (!record) throw new Refused(status.NOT_FOUND, `there is no node ${node}`);
    const moves = await this.#moves(name);
    return { volume, wanted: { name: node, record }, moves, ordered };
  }

  async #moves(volume: string): Promise<Stored<Move>[]> {
    return (await listAll(this.#ports.client, Moves)).items.filter(({ spec }) => spec.volume === volume);
  }

  /** Owned by the volume: a cluster removes it with that. */
  async #order({ metadata: { name: volume, uid } }: Stored<Volume>, node: string): Promise<string> {
    const ownerReferences = [{ apiVersion: GROUP_VERSION, kind: Volumes.kind, name: volume, uid }];
    const metadata = { name: moveName(volume), ownerReferences };
    const spec = { volume, target: node, reason: `it is to be attached on node ${node}` };
    await this.#ports.client.create(Moves, { apiVersion: GROUP_VERSION, kind: Moves.kind, metadata, spec });
    return metadata.name;
  }

  async #pause(signal: AbortSignal, waits: string): Promise<void> {
    await this.#ports.clock.sleep(LOOK, signal).catch(() => undefined);
    if (!signal.aborted) return;
    const { code = status.ABORTED, message = 'the call ended' } = signal.reason as Partial<Refused>;
    throw new Refused(code, `${message}; it waits for ${waits}`);
  }

  /** The application went elsewhere, or away: the data stays where it is, unless it is there already. */
  async #giveUp(volume: string, node: string): Promise<never> {
    const { client } = this.#ports;
    const going = (await this.#moves(volume)).find((move) => isUnfinished(move) && move.spec.target === node);
    if (going && !isCommitted(going) && !asksToCancel(going))
      await ifFound(client.patch(Moves, going.metadata.name, { spec: { cancel: true } })).catch((error: unknown) => {
        if (!isReason(error, 'Invalid', 'Conflict')) throw error;
      });
    throw unwanted(volume, node);
  }
}

const unwanted = (volume: string, node: string): Refused =>
  new Refused(status.ABORTED, `volume ${volume} is not wanted on node ${node} any more`);

function refusal({ reason, message }: Why): Refused {
  if (reason === 'MoveEnded') return new Refused(status.UNAVAILABLE, message);
  return new Refused(codeOfObstacle(reason) ?? status.FAILED_PRECONDITION, message);
}

const LETTERS = 'bcdfghjkmnpqrstvwxz2456789';
const LONGEST_NAME = 253;

/** `<volume>-<5 random>`, as people's moves are called. */
function moveName(volume: string): string {
  const random = Array.from({ length: 5 }, () => LETTERS[randomInt(LETTERS.length)]).join('');
  return `${volume.slice(0, LONGEST_NAME - 6).replace(/[^a-z0-9]+$/u, '')}-${random}`;
}
