// What is broken on purpose, by the rule that it breaks: small patches of the shipped code. Each search must be found exactly once.
// docs/reliability.md tells which rule is shown by what.

interface Patch {
  file: string;
  search: string;
  replace: string;
}

export interface Mutation {
  name: string;
  /** Of DESIGN.md, or what the end of every history demands. */
  rule: string;
  patches: Patch[];
  /** A history that is known to see it; else one after the other is played. */
  seed?: number;
  /** What has to see it, where the simulation cannot. */
  test?: Witness;
}

/** A test, by its file and a part of its name that no other has. */
export interface Witness {
  file: string;
  name: string;
}

const COPIES = 'src/decide/copies.ts';
const SERVED = 'src/decide/publishing.ts';
const MOVES = 'src/decide/moves.ts';
const PUBLISHING = 'src/agent/publishing.ts';
const CONTROLLER = 'src/controller/moves.ts';
const HELD = 'src/decide/copy-snapshots.ts';
const TAKING = 'src/agent/snapshots.ts';

const ONE_WRITABLE = '1, at most one writable copy';
const NOT_DESTROYED = '2, no copy destroyed before its successor stands';
const EXCLUDE = '3, commit and abort exclude each other';
const SURVIVES = '3, every order of writes survives a crash';
const NO_GUESS = '6, never made or formatted on a guess';
const ENDS = '8, everything comes to an end';
const ONE_MOVE = 'at most one unfinished move a volume';
const REFUSALS = '5, a refusal is an event';
const SIZES = '7, sizes are bigint, rounded up once; no string of a user reaches a path';
const NO_TRUST = '9, nothing trusts the network';
const SNAPSHOTS = 'snapshots and clones';
const PLACEMENT = '10, one truth of a placement';

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'publish by what a watch knows instead of a fresh read',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: PUBLISHING,
        search: 'const volume = await freshVolume(client, name);\n    const moves = await allMovesOf(client, name);',
        replace:
          'const volume = this.#ports.known.volume(name) ?? (await freshVolume(client, name));\n    const moves = this.#ports.known.movesOf(name) ?? (await allMovesOf(client, name));',
      },
    ],
    test: { file: 'src/agent/node.test.ts', name: 'a volume that is being cut over is not served, although no watch' },
  },
  {
    name: 'publish a copy whatever its label says',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: SERVED,
        search: "  if (role !== 'active')\n    return {\n      reason: 'NotActive',",
        replace: "  if (role === 'standby')\n    return {\n      reason: 'NotActive',",
      },
      { file: SERVED, search: '  return whyMoving(seen, volume) ?? ', replace: '  return ' },
    ],
    test: { file: 'src/decide/publishing.test.ts', name: 'a copy that is not active is not served' },
  },
  {
    name: 'fence a copy that is in use',
    rule: ONE_WRITABLE,
    patches: [
      { file: COPIES, search: '!asksToCancel(move) && copy.published.length === 0;', replace: '!asksToCancel(move);' },
      {
        file: 'src/agent/acts.ts',
        search: "      refuseWhilePublished(local);\n      if (local.found.label.role === 'active')",
        replace: "      if (local.found.label.role === 'active')",
      },
      {
        file: 'src/agent/copies.ts',
        search: '    await copy.pool.detach(copy.name);\n    this.#holds.set(copy.name, await copy.pool.hold(copy.name));',
        replace: '    this.#holds.set(copy.name, { release: async () => undefined });',
      },
    ],
    test: { file: 'src/decide/copies.test.ts', name: 'in use again it is not fenced: the controller takes the order back' },
  },
  {
    name: 'serve a copy that is ahead of its record',
    rule: ONE_WRITABLE,
    patches: [
      { file: COPIES, search: '  if (copy.label.epoch > epoch) return', replace: '  if (copy.label.epoch > epoch + 1000) return' },
      { file: SERVED, search: '  if (epoch > (volume.spec.epoch ?? 0))\n', replace: '  if (epoch > (volume.spec.epoch ?? 0) + 1000)\n' },
      { file: SERVED, search: '  if (epoch !== volume.spec.epoch)\n', replace: '  if (epoch < (volume.spec.epoch ?? 0))\n' },
    ],
    test: { file: 'src/agent/node.test.ts', name: 'records that were rolled back activate nothing' },
  },
  {
    name: 'fence for a move of another epoch',
    rule: EXCLUDE,
    patches: [{ file: COPIES, search: '!isCommitted(move) && move.status?.epoch === copy.label.epoch;', replace: '!isCommitted(move);' }],
    seed: 9,
  },
  {
    name: 'give a source back without a raised epoch',
    rule: EXCLUDE,
    patches: [{ file: COPIES, search: '  if (copy.label.epoch < epoch) return', replace: '  if (copy.label.epoch <= epoch) return' }],
    seed: 1,
  },
  {
    name: 'abort without raising the epoch',
    rule: EXCLUDE,
    patches: [{ file: CONTROLLER, search: 'epoch: (volume.spec.epoch ?? 0) + 1 } });', replace: 'epoch: volume.spec.epoch ?? 0 } });' }],
    test: { file: 'src/controller/lifecycle.test.ts', name: 'a source that cannot be reached while it is fenced is given back' },
  },
  {
    name: 'commit without a compare-and-swap',
    rule: EXCLUDE,
    patches: [
      {
        file: CONTROLLER,
        search: 'await this.#ports.client.replace(Volumes, { ...volume, spec });',
        replace: 'await this.#ports.client.patch(Volumes, volume.metadata.name, { spec });',
      },
    ],
    test: { file: 'src/controller/moves.test.ts', name: 'a commit writes over nothing that was written since it was decided' },
  },
  {
    name: 'write a phase without a compare-and-swap',
    rule: EXCLUDE,
    patches: [
      {
        file: CONTROLLER,
        search: 'const patch = { metadata: { uid: move.metadata.uid, resourceVersion: move.metadata.resourceVersion }, status: changes };',
        replace: 'const patch = { metadata: { uid: move.metadata.uid }, status: changes };',
      },
    ],
    seed: 11,
  },
  {
    name: 'remove the target of a cancelled move that may still commit',
    rule: NOT_DESTROYED,
    patches: [{ file: COPIES, search: 'return mayStillCommit(move, volume) ? null : discard(copy);', replace: 'return discard(copy);' }],
    test: { file: 'src/decide/copies.test.ts', name: 'taken back after the fence, it stays while a late commit could still name it' },
  },
  {
    name: 'cancel a move that was committed',
    rule: EXCLUDE,
    patches: [
      { file: MOVES, search: "  if (volume && isOurs(seen, volume)) return { step: 'phase', phase: 'Committed' };\n", replace: '' },
    ],
    test: { file: 'src/decide/moves.test.ts', name: 'Cancelling: a commit that came first wins' },
  },
  {
    name: 'take a lost answer to a commit for a failure',
    rule: EXCLUDE,
    patches: [{ file: MOVES, search: "  if (isOurs(seen, volume)) return { step: 'phase', phase: 'Committed' };\n", replace: '' }],
    test: { file: 'src/decide/moves.test.ts', name: 'a commit whose answer was lost is found by reading it back' },
  },
  {
    name: 'decide a removal on what a watch knows',
    rule: NOT_DESTROYED,
    patches: [{ file: 'src/agent/reconcile.ts', search: '    world.moves = await allMovesOf(this.#ports.client, name);\n', replace: '' }],
    test: { file: 'src/agent/node.test.ts', name: 'a lagging watch that has not told of the move does not cost what was copied' },
  },
  {
    name: 'release a superseded copy before its successor was scrubbed',
    rule: NOT_DESTROYED,
    patches: [
      {
        file: MOVES,
        search: "return isJudged(seen) ? { step: 'release' } : wait(obstacleOf(seen));",
        replace: "return { step: 'release' };",
      },
    ],
    seed: 4,
  },
  {
    name: 'release a superseded copy before its time',
    rule: NOT_DESTROYED,
    patches: [{ file: MOVES, search: '  if (left > 0) return wait(null, left);\n', replace: '' }],
    seed: 4,
  },
  {
    name: 'remove a superseded copy without a release',
    rule: NOT_DESTROYED,
    patches: [
      {
        file: COPIES,
        search: '  if (!keeper?.status?.release) return null;\n',
        replace: '',
      },
    ],
    seed: 1,
  },
  {
    name: 'serve bytes that are not final as the final ones',
    rule: NOT_DESTROYED,
    patches: [
      {
        file: 'src/agent/authorize.ts',
        search: "fenced: role === 'stale' || (role === 'retired' && seen.held) };",
        replace: 'fenced: true };',
      },
      { file: MOVES, search: '  if (outgoing?.fencedEpoch === epoch) return', replace: '  if (outgoing?.fencedEpoch !== -1) return' },
    ],
    test: { file: 'src/decide/moves.test.ts', name: 'Fencing: a fence of another epoch is none' },
  },
  {
    name: 'commit before the last delta is proven',
    rule: NOT_DESTROYED,
    patches: [
      {
        file: MOVES,
        search: "  if (incomingOf(seen).completeRound === statusOf(seen).round) return { step: 'phase', phase: 'Verifying' };\n",
        replace: "  return { step: 'phase', phase: 'Verifying' };\n",
      },
      {
        file: MOVES,
        search:
          "if (verified && verified.round === statusOf(seen).round && verified.epoch === statusOf(seen).epoch) return { step: 'commit' };",
        replace: "if (verified ?? true) return { step: 'commit' };",
      },
    ],
    seed: 1,
  },
  {
    name: 'format whatever the label says',
    rule: NO_GUESS,
    patches: [
      {
        file: PUBLISHING,
        search: 'found.label.filesystem, found.label.formatted, options);',
        replace: 'found.label.filesystem, false, options);',
      },
    ],
    test: { file: 'src/agent/node.test.ts', name: 'a volume that was formatted and whose device looks blank is refused' },
  },
  {
    name: 'forget at the target that the source was formatted',
    rule: NO_GUESS,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search: 'found.label.formatted || (move(world, step.move).status?.outgoing?.formatted ?? false);',
        replace: 'false && move(world, step.move).status !== undefined;',
      },
    ],
    test: { file: 'src/controller/lifecycle.test.ts', name: 'a volume formatted after its move began keeps its bytes at the target' },
  },
  {
    name: 'make a copy anew that was made and is gone',
    rule: NO_GUESS,
    patches: [
      {
        file: COPIES,
        search: 'return entry.created ? lost(id) : first(seen, volume, { id, entry });',
        replace: 'return first(seen, volume, { id, entry });',
      },
    ],
    test: { file: 'src/agent/node.test.ts', name: 'a copy that was made and is gone is an error, and never made again' },
  },
  {
    name: 'take a pool that is not there for one without copies',
    rule: SURVIVES,
    patches: [{ file: COPIES, search: '!onDisk.has(id) && seen.pools.has(entry.pool))', replace: '!onDisk.has(id))' }],
    seed: 11,
  },
  {
    name: 'let a volume go while a node still reports a copy',
    rule: SURVIVES,
    patches: [
      {
        file: 'src/decide/volumes.ts',
        search: 'if (Object.keys(copiesOf(seen.volume)).length === 0 && seen.moves === 0)',
        replace: 'if (seen.moves === 0)',
      },
    ],
    seed: 1,
  },
  {
    name: 'forget a mount before it is undone',
    rule: SURVIVES,
    patches: [
      {
        file: PUBLISHING,
        search:
          "        await this.#ports.mounts.beUnmounted(publication.target);\n        this.#ports.crash('unpublish:unmounted');\n        await this.#publications.remove(publication.copy, publication.target);",
        replace:
          "        await this.#publications.remove(publication.copy, publication.target);\n        this.#ports.crash('unpublish:unmounted');\n        await this.#ports.mounts.beUnmounted(publication.target);",
      },
    ],
    seed: 7,
  },
  {
    name: 'serve whoever asks',
    rule: '9, a source serves only the node that the record names',
    patches: [{ file: 'src/agent/authorize.ts', search: '[move.spec.target === peer, ', replace: "[peer !== '', " }],
    seed: 8,
  },
  {
    name: 'let two moves of a volume go at once',
    rule: ONE_MOVE,
    patches: [
      {
        file: MOVES,
        search: "  if (seen.earlier) return wait({ reason: 'Queued',",
        replace: "  if (seen.earlier === '') return wait({ reason: 'Queued',",
      },
    ],
    seed: 1,
  },
  {
    name: 'judge the order of moves by what a watch knows',
    rule: ONE_MOVE,
    patches: [
      {
        file: CONTROLLER,
        search: "phaseOf(move) === 'Pending' ? (await client.list(Moves)).items : known.moves();",
        replace: 'known.moves();',
      },
    ],
    test: { file: 'src/controller/moves.test.ts', name: 'a move is not accepted beside one of the same volume that no watch has told of' },
  },
  {
    name: 'wait at a deletion for a move that never began',
    rule: ENDS,
    patches: [
      {
        file: COPIES,
        search: "seen.moves.find((each) => isUnfinished(each) && phaseOf(each) !== 'Pending');",
        replace: 'seen.moves.find(isUnfinished);',
      },
    ],
    test: { file: 'src/decide/copies.test.ts', name: 'deleted: a move that was never accepted is not waited for' },
  },
  {
    name: 'leave a source fenced after a cancel',
    rule: ENDS,
    patches: [{ file: MOVES, search: "  if (volume.spec.epoch === epoch) return { step: 'unfence' };\n", replace: '' }],
    test: { file: 'src/decide/moves.test.ts', name: 'Cancelling: a fence is lifted first, by a swap that makes late commits fail' },
  },
  {
    name: 'leave the points of ended moves',
    rule: ENDS,
    patches: [
      {
        file: COPIES,
        search: '.filter((point) => !isPointNeeded(seen, copy, point))',
        replace: '.filter((point) => !isPointNeeded(seen, copy, point) && false)',
      },
    ],
    seed: 3,
  },
  {
    name: 'freeze no point at the commit',
    rule: ENDS,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search: '    if (found.pool.points) await found.pool.freeze(found.name, commitPoint(moveUid));\n',
        replace: '',
      },
    ],
    seed: 4,
  },
  {
    name: 'write the time at every look at a node',
    rule: 'an unchanged world costs no write',
    patches: [
      {
        file: 'src/decide/observed.ts',
        search: 'lastTransitionTime: same?.lastTransitionTime ?? at };',
        replace: "lastTransitionTime: same?.type === '' ? same.lastTransitionTime : at };",
      },
    ],
    seed: 1,
  },

  // ---- orders of writes (docs/moves.md) --------------------------------------------------------------------------------------------
  {
    name: 'accept a move without its finalizer',
    rule: SURVIVES,
    patches: [
      {
        file: CONTROLLER,
        search: 'finalizers: [...finalizers, MOVE_FINALIZER] }',
        replace: 'finalizers }',
      },
    ],
    test: { file: 'src/simulation/simulation.test.ts', name: 'whoever dies at accept:finalizer and is started again' },
  },
  {
    name: 'label a copy formatted before it is',
    rule: SURVIVES,
    patches: [
      {
        file: PUBLISHING,
        search:
          "    await this.#ports.mounts.beFormatted(device, found.label.filesystem, found.label.formatted, options);\n    this.#ports.crash('publish:formatted');\n",
        replace:
          "    if (!found.label.formatted) await this.#copies.relabel(found, { formatted: true });\n    this.#ports.crash('publish:formatted');\n    await this.#ports.mounts.beFormatted(device, found.label.filesystem, found.label.formatted, options);\n",
      },
    ],
    seed: 1,
  },
  {
    name: 'remember a mount after it is made',
    rule: SURVIVES,
    patches: [
      {
        file: PUBLISHING,
        search:
          '    await this.#publications.add(found.name, { ...wanted, volume: found.label.volume });\n    try {\n      await this.#mountAt(found, device, wanted);\n',
        replace:
          "    try {\n      await this.#mountAt(found, device, wanted);\n      this.#ports.crash('publish:mounted');\n      await this.#publications.add(found.name, { ...wanted, volume: found.label.volume });\n",
      },
    ],
    test: { file: 'src/simulation/simulation.test.ts', name: 'whoever dies at publish:mounted and is started again' },
  },
  {
    name: 'report a fence that is on no label',
    rule: SURVIVES,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search:
          "    if (label.role !== 'retired') await this.#copies.relabel(local.found, { role: 'retired', moveUid: ordered.metadata.uid });\n    crash('fence:labelled');\n",
        replace: "    crash('fence:labelled');\n",
      },
    ],
    seed: 1,
  },
  {
    name: 'activate a copy before its commit point is frozen',
    rule: SURVIVES,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search:
          "    if (found.pool.points) await found.pool.freeze(found.name, commitPoint(moveUid));\n    this.#ports.crash('activate:frozen');\n",
        replace: "    this.#ports.crash('activate:frozen');\n",
      },
      {
        file: 'src/agent/acts.ts',
        search: "    this.#ports.crash('activate:labelled');\n",
        replace:
          "    this.#ports.crash('activate:labelled');\n    if (found.pool.points) await found.pool.freeze(found.name, commitPoint(moveUid));\n",
      },
    ],
    seed: 9,
  },
  {
    name: 'forget a copy before it is removed',
    rule: SURVIVES,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search:
          "    await found.pool.remove(found.name, volume(world).spec.wipe ?? 'none');\n    await this.#changed(found.pool.name);\n    this.#ports.crash('remove:removed');\n    await this.#proveAbsent(uid, found);\n    await this.#forget(step.copy, world);\n",
        replace:
          "    await this.#forget(step.copy, world);\n    this.#ports.crash('remove:removed');\n    await found.pool.remove(found.name, volume(world).spec.wipe ?? 'none');\n    await this.#changed(found.pool.name);\n    await this.#proveAbsent(uid, found);\n",
      },
    ],
    seed: 1,
  },
  {
    name: 'activate a copy that its journal does not prove',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: COPIES,
        search: 'if (proof?.verified && proof.moveUid === copy.label.moveUid && proof.verified.epoch === epoch - 1)',
        replace: 'if (proof !== undefined)',
      },
    ],
    test: { file: 'src/decide/copies.test.ts', name: 'without a proof it is not served' },
  },

  // ---- directories -----------------------------------------------------------------------------------------------------------------
  {
    name: 'hold a copy without the proof that nobody has it',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: 'src/agent/copies.ts',
        search: 'this.#holds.set(copy.name, await copy.pool.hold(copy.name));',
        replace: 'this.#holds.set(copy.name, { release: async () => undefined });',
      },
    ],
    test: {
      file: 'src/simulation/simulation.test.ts',
      name: 'a directory of which somebody has files open without a mount is fenced only once',
    },
  },
  {
    name: 'hold a directory without looking for who has it open',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: 'src/pools/directory.ts',
        search: "        this.place.crash('hold:renamed');\n        await checkUnused(this.place, name);\n",
        replace: "        this.place.crash('hold:renamed');\n",
      },
    ],
    test: { file: 'src/pools/directory.test.ts', name: 'is named, and keeps out the fence until he ends' },
  },

  {
    name: 'fence a directory where everybody finds it',
    rule: ONE_WRITABLE,
    patches: [
      {
        file: 'src/pools/directory.ts',
        search: '        await beAt(this.place, name, treePaths(this.place, name).retired);\n',
        replace: '        await beAt(this.place, name, treePaths(this.place, name).served);\n',
      },
    ],
    test: { file: 'src/pools/directory.test.ts', name: 'a fence takes it out of reach, by its old path too' },
  },

  // ---- snapshots and clones --------------------------------------------------------------------------------------------------------
  {
    name: 'let a snapshot go while a volume is being made of it',
    rule: SNAPSHOTS,
    patches: [
      { file: 'src/controller/snapshots.ts', search: 'makes: isDeleting(snapshot) ? await this.#makes(name) : [],', replace: 'makes: [],' },
    ],
    seed: 5,
  },
  {
    name: 'remove a copy that holds snapshots',
    rule: SNAPSHOTS,
    patches: [{ file: HELD, search: '  if (kept.length === 0) return null;\n', replace: '  if (kept.length >= 0) return null;\n' }],
    seed: 3,
  },
  {
    name: 'release the point of a snapshot that nobody deleted',
    rule: SNAPSHOTS,
    patches: [{ file: COPIES, search: 'return !isTakenElsewhere(seen, id, point);', replace: 'return isTakenElsewhere(seen, id, point);' }],
    seed: 3,
  },
  {
    name: 'take a snapshot of a copy that is not served',
    rule: SNAPSHOTS,
    patches: [
      {
        file: HELD,
        search: "spec.copy === id && label.role === 'active' && label.epoch === spec.epoch;",
        replace: "id !== '' && label.role !== 'standby';",
      },
    ],
    test: { file: 'src/decide/copy-snapshots.test.ts', name: 'a snapshot is not taken of a copy that was superseded' },
  },
  {
    name: 'report a snapshot before it is taken',
    rule: SNAPSHOTS,
    patches: [
      {
        file: TAKING,
        search: '    await pool.freeze(name, snapshotPoint(snapshot.metadata.uid));\n    this.#inventory.touched(pool.name);\n',
        replace: '',
      },
      {
        file: TAKING,
        search: '    await this.#report(snapshot, { ...holds, obstacle: null });\n',
        replace:
          '    await this.#report(snapshot, { ...holds, obstacle: null });\n    await pool.freeze(name, snapshotPoint(snapshot.metadata.uid));\n    this.#inventory.touched(pool.name);\n',
      },
    ],
    seed: 3,
  },
  {
    name: 'forget a snapshot before its point is released',
    rule: SNAPSHOTS,
    patches: [
      {
        file: TAKING,
        search: "    const pool = this.#ports.pools.get(snapshot.status?.pool ?? '');\n    try {\n",
        replace:
          "    const pool = this.#ports.pools.get(snapshot.status?.pool ?? '');\n    await this.#report(snapshot, { phase: 'Released', obstacle: null });\n    this.#ports.crash('snapshot:released');\n    try {\n",
      },
      {
        file: TAKING,
        search: "    this.#ports.crash('snapshot:released');\n    await this.#report(snapshot, { phase: 'Released', obstacle: null });\n",
        replace: '',
      },
    ],
    seed: 8,
  },
  {
    name: 'judge by a watch which snapshots a copy holds',
    rule: SNAPSHOTS,
    patches: [
      {
        file: 'src/agent/reconcile.ts',
        search: '    if (await this.#holdsSnapshots(uid)) world.snapshots = await allSnapshotsOf(this.#ports.client, name);\n',
        replace: '',
      },
    ],
    test: { file: 'src/controller/snapshots.test.ts', name: 'a copy is not removed because no watch has told of the snapshot' },
  },
  {
    name: 'scrub a directory against what nobody remembers',
    rule: NOT_DESTROYED,
    patches: [
      {
        file: 'src/transfer/tree/scrub.ts',
        search: '    await beAbsent(mendingOf(pool, copy));\n    return this.#report;',
        replace: '    await beAbsent(mendingOf(pool, copy));\n    await beAbsent(committedOf(pool, copy));\n    return this.#report;',
      },
    ],
    test: { file: 'src/transfer/tree/scrub.test.ts', name: 'a scrub of which nobody heard is repeated' },
  },
  {
    name: 'begin a clone with nothing',
    rule: SNAPSHOTS,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search: '  if (!from) return void (await pool.create',
        replace: '  if (from !== null) return void (await pool.create',
      },
    ],
    seed: 3,
  },
  {
    name: 'format a clone',
    rule: NO_GUESS,
    patches: [
      {
        file: 'src/agent/acts.ts',
        search: 'const formatted = (moveUid === undefined ? from?.status?.formatted : source?.formatted) ?? false;',
        replace: 'const formatted = (moveUid === undefined ? false : source?.formatted) ?? false;',
      },
    ],
    test: { file: 'src/controller/snapshots.test.ts', name: 'what begins with a snapshot of a formatted volume is formatted' },
  },
  {
    name: 'serve a clone under the identity of its source',
    rule: SNAPSHOTS,
    patches: [
      {
        file: PUBLISHING,
        search: '    if (!found.label.cloned || !hasFilesystem(found)) return local;\n',
        replace: '    if (found.label.cloned !== undefined || !hasFilesystem(found)) return local;\n',
      },
    ],
    test: {
      file: 'src/controller/snapshots.test.ts',
      name: 'a snapshot is of the bytes of its moment, and a volume that begins with it has these',
    },
  },
  {
    name: 'keep what was taken for a clone',
    rule: SNAPSHOTS,
    patches: [
      {
        file: 'src/decide/volumes.ts',
        search: "  return isMade(volume) || isDeleting(volume) ? { step: 'dropSource', snapshot: source.metadata.name } : null;",
        replace: "  return isDeleting(volume) && volume.spec.epoch === -1 ? { step: 'dropSource', snapshot: source.metadata.name } : null;",
      },
    ],
    test: {
      file: 'src/controller/snapshots.test.ts',
      name: 'a clone of a volume is of its bytes as they are, and nothing that was taken for it stays',
    },
  },

  // ---- what a simulation without bytes on disks, wires and people's strings cannot see -----------------------------------------------
  {
    name: 'make a filesystem where a probe found nothing',
    rule: NO_GUESS,
    patches: [
      {
        file: 'src/host/format.ts',
        search: '  if (formatted) return checkFormatted(device, filesystem, found);\n',
        replace: '  if (formatted && found) return checkFormatted(device, filesystem, found);\n',
      },
    ],
    test: { file: 'src/host/format.test.ts', name: 'a blkid that finds nothing never leads to a format of what was formatted' },
  },
  {
    name: 'tell nobody of a step that failed',
    rule: REFUSALS,
    patches: [
      {
        file: 'src/agent/reconcile.ts',
        search: "        tell(world.volume, 'Warning', `${capital(step.step)}Failed`, messageOf(error));",
        replace: '        void tell;',
      },
    ],
    test: { file: 'src/simulation/simulation.test.ts', name: 'what an agent cannot do is told of by an event' },
  },
  {
    name: 'round a size down',
    rule: SIZES,
    patches: [
      {
        file: 'src/model/quantity.ts',
        search: '(scaled + divisor - 1n) / divisor',
        replace: 'scaled / divisor',
      },
    ],
    test: { file: 'src/model/quantity.test.ts', name: '0.1Ki is 103 bytes' },
  },
  {
    name: 'let any text be a name',
    rule: SIZES,
    patches: [
      {
        file: 'src/model/names.ts',
        search: 'if (text.length > longest || !expression.test(text))',
        replace: 'if (text.length > longest && !expression.test(text))',
      },
    ],
    test: { file: 'src/agent/node.test.ts', name: 'X-03: a volume whose name is a path is no volume' },
  },
  {
    name: 'record progress before it is synced',
    rule: SURVIVES,
    patches: [
      {
        file: 'src/transfer/copying.ts',
        search: "    await handle.sync();\n    crash('transfer.device.synced');\n    if (!journal) return;\n",
        replace: "    crash('transfer.device.synced');\n    if (!journal) return;\n",
      },
    ],
    test: { file: 'src/transfer/progress.test.ts', name: 'what is recorded as written was synced before' },
  },
  {
    name: 'serve who shows no certificate of the cluster',
    rule: NO_TRUST,
    patches: [
      {
        file: 'src/transfer/tls.ts',
        search: '  if (!socket.authorized)\n',
        replace: '  if (!socket.authorized && !certificate)\n',
      },
    ],
    test: { file: 'src/transfer/refusals.test.ts', name: 'a node with the certificate of another cluster is refused' },
  },
  {
    name: 'take a source for the one that was meant',
    rule: NO_TRUST,
    patches: [
      {
        file: 'src/transfer/tls.ts',
        search: '    if (found === node) return undefined;\n',
        replace: '    if (found) return undefined;\n',
      },
    ],
    test: { file: 'src/transfer/refusals.test.ts', name: 'a node of the cluster that is not the one the move names is refused by name' },
  },
  {
    name: 'serve a node that was removed',
    rule: NO_TRUST,
    patches: [
      {
        file: 'src/agent/authorize.ts',
        search: '  return record?.metadata.uid !== uid || isDeleting(record);',
        replace: "  return record === undefined || uid === '';",
      },
    ],
    test: { file: 'src/cli/refusals.engine.test.ts', name: 'only the node that the move names is served' },
  },
  {
    name: 'place a volume that has its place',
    rule: PLACEMENT,
    patches: [
      {
        file: 'src/decide/volumes.ts',
        search: '  if (volume.spec.copy === undefined) return placing(seen);\n',
        replace: '  if (volume.status?.copies === undefined || volume.spec.copy === undefined) return placing(seen);\n',
      },
    ],
    test: { file: 'src/decide/volumes.test.ts', name: 'Volume: placed, its copy is ordered' },
  },
  {
    name: 'mount a volume where it is not',
    rule: PLACEMENT,
    patches: [
      {
        file: SERVED,
        search: "  if (volume.spec.node !== node)\n    return {\n      reason: 'OtherNode',",
        replace: "  if (volume.spec.node === '')\n    return {\n      reason: 'OtherNode',",
      },
    ],
    test: { file: 'src/decide/copies.test.ts', name: 'G-02: before the commit the target cannot be used' },
  },
];
