// What a test undoes at its end, in the reverse order of what it did: node:test runs its own after-hooks in the order of their making, and
// a folder must not go before those who work in it. Only *.test.ts and fixtures import it.

/** What of node:test's context is needed. */
export interface Test {
  after(work: () => Promise<void>): void;
}

type Work = () => unknown;

const undone = new WeakMap<Test, Work[]>();

/** Runs `work` at the test's end, before what was registered earlier. Every one runs, whatever the others throw. */
export function afterwards(t: Test, work: Work): void {
  const known = undone.get(t);
  if (known) {
    known.push(work);
    return;
  }
  const stack = [work];
  undone.set(t, stack);
  t.after(() => undoAll(stack));
}

async function undoAll(stack: Work[]): Promise<void> {
  const errors: unknown[] = [];
  for (let work = stack.pop(); work; work = stack.pop()) {
    try {
      await work();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors, 'several things could not be undone');
}
