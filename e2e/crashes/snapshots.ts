// The plot of a volume of which snapshots and clones are made while its application writes: what was acknowledged before a snapshot was ordered
// is in it; a clone is mounted beside its source; snapshot, clones and source go, in an order that chance takes.
import { join } from 'node:path';
import { GROUP_VERSION } from '../../src/model/meta.ts';
import { Snapshots } from '../../src/model/snapshot.ts';
import { checkTaken, type Span } from './application.ts';
import { NODES } from './stage.ts';
import { Story } from './story.ts';

export class SnapshotStory extends Story {
  async tell(): Promise<void> {
    await this.create({ size: '24Mi', node: NODES[0], retainSource: '0s' });
    await this.serve();
    const snapshot = `${this.name}-s`;
    const taken = await this.#during(() => this.#take(snapshot));
    const [old, now] = [`${this.name}-old`, `${this.name}-now`];
    await this.create({ size: '24Mi', source: { snapshot } }, old);
    await this.#check(old, taken);
    const cloned = await this.#during(() => this.create({ size: '24Mi', source: { volume: this.name } }, now));
    await this.#check(now, cloned);
    await this.application.stop();
    await this.unmount();
    if (this.chance.happens(0.5)) await this.#drop(snapshot);
    for (const name of [old, now]) await this.delete(name);
    await this.#drop(snapshot);
    await this.delete();
    await this.leaveNothing();
  }

  async #during(act: () => Promise<void>): Promise<Span> {
    const span = this.application.begin();
    await act();
    this.application.end();
    return span;
  }

  async #check(clone: string, span: Span): Promise<void> {
    await checkTaken(join(await this.mount(clone), 'content'), span);
    await this.unmount(clone);
  }

  async #take(name: string): Promise<void> {
    const { client } = this.stage;
    const spec = { volume: this.name };
    await this.insist(`take snapshot ${name}`, async () => {
      const there = (await client.list(Snapshots)).items.some(({ metadata }) => metadata.name === name);
      if (!there) await client.create(Snapshots, { apiVersion: GROUP_VERSION, kind: 'Snapshot', metadata: { name }, spec });
    });
    await this.until(`snapshot ${name} is taken`, async () => {
      const { status } = await client.get(Snapshots, name);
      if (status?.phase === 'Ready') return true;
      throw new Error(`it is ${JSON.stringify(status)}`);
    });
  }

  async #drop(name: string): Promise<void> {
    const { client } = this.stage;
    await this.until(`snapshot ${name} is gone`, async () => {
      const there = (await client.list(Snapshots)).items.find(({ metadata }) => metadata.name === name);
      if (!there) return true;
      if (there.metadata.deletionTimestamp === undefined) await client.delete(Snapshots, name);
      throw new Error(`it is ${JSON.stringify(there.status)}`);
    });
  }
}
