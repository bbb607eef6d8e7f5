// The pools of a node, as its file names them. Checks the text only; whether a folder is that pool is said when it is opened.
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { parse } from 'yaml';
import { Invalid, messageOf } from '../model/errors.ts';
import { POOL_NAME_PATTERN, printable } from '../model/names.ts';
import { parseQuantity, QUANTITY_PATTERN } from '../model/quantity.ts';
import { POOL_TYPES } from '../model/storage-node.ts';

const NAMED = { name: Type.String({ pattern: POOL_NAME_PATTERN, maxLength: 63 }) };
/** Kept free: a quantity, or a percentage of what is underneath. Default 5%. */
const RESERVE = { reserve: Type.Optional(Type.String({ maxLength: 40 })) };
/** Makes copies thin, and lets their sizes add up to so many times the room. */
const OVERCOMMIT = { overcommit: Type.Optional(Type.Union([Type.Number({ minimum: 1, maximum: 1000 }), Type.Literal('unlimited')])) };
const LVM_NAME = Type.String({ pattern: '^[a-zA-Z0-9_+][a-zA-Z0-9_+.-]*$', maxLength: 63 });
/** Whose LVM is called: the machine's own, from within a container that sees its processes, or the one beside the agent. Default image. */
const TOOLS = { tools: Type.Optional(Type.Enum(['host', 'image'])) };
const STRICT = { additionalProperties: false };

/** `path`: the pool's folder, absolute. */
const ImageConfiguration = Type.Object(
  { ...NAMED, type: Type.Literal('image'), path: Type.String({ pattern: '^/' }), ...RESERVE, ...OVERCOMMIT },
  STRICT,
);

const DirectoryConfiguration = Type.Object(
  { ...NAMED, type: Type.Literal('directory'), path: Type.String({ pattern: '^/' }), ...RESERVE, ...OVERCOMMIT },
  STRICT,
);

const LvmConfiguration = Type.Object(
  {
    ...NAMED,
    type: Type.Literal('lvm'),
    volumeGroup: LVM_NAME,
    ...RESERVE,
    /** Room of a move's point on a copy: a quantity, or a percentage of the copy. Default 20%. */
    snapshotReserve: Type.Optional(Type.String({ maxLength: 40 })),
    /** How the extents of a copy lie. */
    lvcreateOptions: Type.Optional(
      Type.Array(Type.String({ pattern: '^--(stripes=[1-9][0-9]?|stripesize=[1-9][0-9]{0,3}k|type=(linear|striped|raid1)|mirrors=1)$' })),
    ),
    ...TOOLS,
  },
  STRICT,
);

const LvmThinConfiguration = Type.Object(
  {
    ...NAMED,
    type: Type.Literal('lvm-thin'),
    volumeGroup: LVM_NAME,
    thinPool: LVM_NAME,
    ...RESERVE,
    ...OVERCOMMIT,
    /** The thin pool grows by this much, of the room of its volume group, when it is four fifths full: a quantity, or a percentage of it. */
    autoextend: Type.Optional(Type.String({ maxLength: 40 })),
    ...TOOLS,
  },
  STRICT,
);

/** By type. */
const KNOWN = { image: ImageConfiguration, directory: DirectoryConfiguration, lvm: LvmConfiguration, 'lvm-thin': LvmThinConfiguration };
export type PoolConfiguration =
  | Static<typeof ImageConfiguration>
  | Static<typeof DirectoryConfiguration>
  | Static<typeof LvmConfiguration>
  | Static<typeof LvmThinConfiguration>;

const PERCENT = /^[0-9]{1,2}(\.[0-9]{1,3})?%$/u;

/** Reads YAML or JSON: `pools:` with a list, or the list alone. Throws Invalid naming the file and the field. */
export function parsePools(text: string, file = 'the pools file'): PoolConfiguration[] {
  try {
    return poolsOf(text);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Invalid(`${file}: ${error.message}`, { cause: error });
  }
}

function poolsOf(text: string): PoolConfiguration[] {
  const list = listIn(text);
  const pools = list.map((each, index) => checkedPool(each, `pools[${index}]`));
  const names = new Set<string>();
  for (const { name } of pools) {
    if (names.has(name)) throw new Invalid(`pools: the name ${name} is there twice; every pool of a node has its own`);
    names.add(name);
  }
  return pools;
}

function listIn(text: string): unknown[] {
  let parsed: unknown;
  try {
    parsed = parse(text);
  } catch (error) {
    throw new Invalid(`it is neither YAML nor JSON: ${messageOf(error)}`, { cause: error });
  }
  const list = Array.isArray(parsed) ? parsed : (parsed as { pools?: unknown } | null)?.pools;
  if (!Array.isArray(list))
    throw new Invalid('it has no list `pools:`, for example `pools: [{name: local, type: image, path: /srv/flock}]`');
  return list;
}

/** One pool of the file. `where` names it in messages. */
function checkedPool(value: unknown, where: string): PoolConfiguration {
  const schema = schemaOf(value, where);
  refuseUnknown(value as object, schema, where);
  for (const field of ['reserve', 'snapshotReserve', 'autoextend'] as const)
    checkPart((value as { [field: string]: unknown })[field], `${where}.${field}`);
  if (!Value.Check(schema, value)) {
    const [first] = Value.Errors(schema, value);
    throw new Invalid(
      `${where}${(first?.instancePath ?? '').replaceAll('/', '.')}: ${first?.message ?? 'is not valid'}${givenIn(first?.params)}`,
    );
  }
  return value;
}

/** A key that nobody reads is a slip: what it was to say would not be so. */
function refuseUnknown(value: object, schema: (typeof KNOWN)[keyof typeof KNOWN], where: string): void {
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  const meant = known.find((key) => isNearly(unknown, key));
  const { type } = value as { type?: unknown };
  throw new Invalid(
    `${where}.${unknown}: there is no such key${meant === undefined ? '.' : `; did you mean ${meant}?`} A pool of type ${String(type)} has ${known.join(', ')}`,
  );
}

/** One letter more, less or another, or two that changed places. */
function isNearly(text: string, word: string): boolean {
  const [one, other] = [text.toLowerCase(), word.toLowerCase()];
  const edits = Array.from({ length: Math.max(one.length, other.length) }, (_, at) => [
    one.slice(0, at) + one.slice(at + 1) === other,
    other.slice(0, at) + other.slice(at + 1) === one,
    one.slice(0, at) + one.slice(at + 1) === other.slice(0, at) + other.slice(at + 1),
    one.slice(0, at) + (one[at + 1] ?? '') + (one[at] ?? '') + one.slice(at + 2) === other,
  ]);
  return edits.flat().includes(true);
}

const givenIn = (parameters: object | undefined): string => {
  // The message names the type itself.
  const values = Object.entries(parameters ?? {}).flatMap(([name, value]) => (name === 'type' ? [] : [value].flat()));
  return values.length === 0 ? '' : ` (${values.map((each) => printable(String(each))).join(', ')})`;
};

function schemaOf(value: unknown, where: string): (typeof KNOWN)[keyof typeof KNOWN] {
  if (typeof value !== 'object' || value === null) throw new Invalid(`${where}: must be object`);
  const { type } = value as { type?: unknown };
  if (isKnown(type)) return KNOWN[type];
  const types = POOL_TYPES.map((each) => JSON.stringify(each)).join(', ');
  throw new Invalid(`${where}.type: ${typeof type === 'string' ? `${printable(type)} is none` : 'is none'} of ${types}`);
}

const isKnown = (type: unknown): type is keyof typeof KNOWN => typeof type === 'string' && Object.hasOwn(KNOWN, type);

function checkPart(part: unknown, where: string): void {
  if (part === undefined || (typeof part === 'string' && PERCENT.test(part))) return;
  if (typeof part !== 'string' || !new RegExp(QUANTITY_PATTERN, 'u').test(part))
    throw new Invalid(
      `${where}: ${printable(typeof part === 'string' ? part : JSON.stringify(part))} is neither a percentage such as 5% nor a size such as 10Gi`,
    );
  parseQuantity(part);
}
