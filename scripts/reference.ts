// Writes docs/kinds.md from the kinds themselves; reference.test.ts says whether it still is what they are. Knows no kind by name.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { schemaOf } from '../src/model/crd.ts';
import type { Column, Kind } from '../src/model/kind.ts';
import { FLOCK_KINDS } from '../src/model/kinds.ts';
import type { Structural } from '../src/model/structural.ts';

const FILE = resolve(import.meta.dirname, '../docs/kinds.md');

const HEAD = `# Kinds and their fields

Made from \`src/model/\` by \`node scripts/reference.ts\`; a test holds it to the source. Group \`flock.dev\`, version \`v1alpha1\`. Quantities are
written as in Kubernetes (\`10Gi\`), durations as in Go (\`1h30m\`); byte counts in a status are decimal strings.
`;

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string): string => `\`${cell(text)}\``;

/** Columns that say nothing are left out. */
function table(head: string[], rows: string[][]): string {
  const telling = head.map((_, column) => rows.some((row) => row[column] !== ''));
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.filter((_, column) => telling[column]).join(' | ')} |`).join('\n');
}

function valuesOf(schema: Structural): string {
  if (schema.enum) return schema.enum.map((value) => code(String(value))).join(', ');
  const range = schema.minimum === undefined ? '' : ` from ${schema.minimum}`;
  return `${schema.type ?? 'any'}${range}`;
}

/** Every field below, with its path; items of lists by [], of maps by {}. */
function fieldsOf(schema: Structural, path: string): [path: string, schema: Structural][] {
  const items = schema.items ? fieldsOf(schema.items, `${path}[]`) : [];
  const more = typeof schema.additionalProperties === 'object' ? fieldsOf(schema.additionalProperties, `${path}{}`) : [];
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, field]): [string, Structural][] => [
    [`${path}.${name}`, field],
    ...fieldsOf(field, `${path}.${name}`),
  ]);
  return [...own, ...items, ...more];
}

function fieldTable(schema: Structural, top: string): string {
  const rows = fieldsOf(schema, top).map(([path, field]) => [
    code(path),
    valuesOf(field),
    field.default === undefined ? '' : code(typeof field.default === 'string' ? field.default : JSON.stringify(field.default)),
    cell(field.description ?? ''),
  ]);
  return table(['field', 'values', 'default', 'meaning'], rows);
}

const columnRow = ({ name, jsonPath, priority = 0 }: Column): string[] => [name, code(jsonPath), priority > 0 ? 'only with `-o wide`' : ''];

function sectionOf(kind: Kind): string {
  const { spec, status } = schemaOf(kind).properties ?? {};
  const required = schemaOf(kind).properties?.['spec']?.required ?? [];
  return [
    `## ${kind.kind}`,
    `\`${kind.plural}\`, short \`${kind.shortNames.join('`, `')}\`; ${kind.scope.toLowerCase()}-wide.${
      required.length > 0 ? ` Needed: ${required.map((name) => code(`spec.${name}`)).join(', ')}.` : ''
    }`,
    ...(spec ? [fieldTable(spec, 'spec')] : []),
    ...(kind.rules.length > 0 ? [`Rules: ${kind.rules.map(({ message }) => message).join('; ')}.`] : []),
    ...(status ? [fieldTable(status, 'status')] : []),
    'Columns:',
    table(['column', 'from', ''], kind.columns.map(columnRow)),
  ].join('\n\n');
}

export async function reference(): Promise<string> {
  const text = [HEAD, ...FLOCK_KINDS.map(sectionOf)].join('\n\n');
  return format(text, { ...(await resolveConfig(FILE)), parser: 'markdown' });
}

if (import.meta.main) writeFileSync(FILE, await reference());
