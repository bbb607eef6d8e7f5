// Writes the chart's custom resource definitions from the kinds themselves; definitions.test.ts says whether they still are what the kinds are.
// Uninstalling the chart keeps them, and with them all records. Knows no kind by name.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { stringify } from 'yaml';
import { crdOf } from '../src/model/crd.ts';
import { FLOCK_KINDS } from '../src/model/kinds.ts';

export const DEFINITIONS = resolve(import.meta.dirname, '../charts/flock/templates/definitions.yaml');

const HEAD = '# Made from src/model by `node scripts/definitions.ts`; a test holds it to the source.\n';

export function definitions(): string {
  const documents = FLOCK_KINDS.map((kind) => {
    const crd = crdOf(kind);
    const annotations = { 'helm.sh/resource-policy': 'keep' };
    return stringify({ ...crd, metadata: { ...crd.metadata, annotations } }, { lineWidth: 0, aliasDuplicateObjects: false });
  });
  const text = HEAD + documents.join('---\n');
  if (text.includes('{{')) throw new Error('a definition has {{ in it, which Helm would read as its own');
  return text;
}

if (process.argv[1] === import.meta.filename) writeFileSync(DEFINITIONS, definitions());
