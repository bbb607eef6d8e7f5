// The pools of a node, as its file names them. Checks the text only; whether a folder is that pool is said when it is opened.
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { parse } from 'yaml';
import { FlockError, Invalid, messageOf } from '../model/errors.ts';
import { POOL_NAME_PATTERN, printable } from '../model/names.ts';
import { parseQuantity, QUANTITY_PATTERN } from '../model/quantity.ts';
import { POOL_TYPES } from '../model/storage-node.ts';

const PoolConfiguration = Type.Object(
  {
    name: Type.String({ pattern: POOL_NAME_PATTERN, maxLength: 63 }),
    type: Type.Enum([...POOL_TYPES]),
    /** Folder of an image pool, absolute. */
    path: Type.String({ pattern: '^/' }),
    /** Kept free: a quantity, or a percentage of the filesystem. Default 5%. */
    reserve: Type.Optional(Type.String({ maxLength: 40 })),
    /** Makes files thin, and lets their sizes add up to so many times the room. */
    overcommit: Type.Optional(Type.Union([Type.Number({ minimum: 1, maximum: 1000 }), Type.Literal('unlimited')])),
  },
  { additionalProperties: false },
);
export type PoolConfiguration = Static<typeof PoolConfiguration>;

const PERCENT = /^[0-9]{1,2}(\.[0-9]{1,3})?%$/u;

/** Reads YAML or JSON: `pools:` with a list, or the list alone. Throws Invalid naming the field, Unsupported for types to come. */
export function parsePools(text: string): PoolConfiguration[] {
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
    throw new Invalid(`the pools file is neither YAML nor JSON: ${messageOf(error)}`, { cause: error });
  }
  const list = Array.isArray(parsed) ? parsed : (parsed as { pools?: unknown } | null)?.pools;
  if (!Array.isArray(list))
    throw new Invalid('the pools file has no list `pools:`, for example `pools: [{name: local, type: image, path: /srv/flock}]`');
  return list;
}

/** One pool of the file. `where` names it in messages. */
function checkedPool(value: unknown, where: string): PoolConfiguration {
  checkType(value, where);
  if (!Value.Check(PoolConfiguration, value)) {
    const [first] = Value.Errors(PoolConfiguration, value);
    throw new Invalid(
      `${where}${(first?.instancePath ?? '').replaceAll('/', '.')}: ${first?.message ?? 'is not valid'}${givenIn(first?.params)}`,
    );
  }
  checkReserve(value.reserve, where);
  return value;
}

const givenIn = (parameters: object | undefined): string => {
  const values = Object.values(parameters ?? {}).flat();
  return values.length === 0 ? '' : ` (${values.map((each) => printable(String(each))).join(', ')})`;
};

function checkType(value: unknown, where: string): void {
  const type = (value as { type?: unknown } | null)?.type;
  if (type === 'lvm' || type === 'lvm-thin' || type === 'directory')
    throw new FlockError('Unsupported', `${where}.type: pools of type ${type} are not in this release; use image`);
}

function checkReserve(reserve: string | undefined, where: string): void {
  if (reserve === undefined || PERCENT.test(reserve)) return;
  if (!new RegExp(QUANTITY_PATTERN, 'u').test(reserve))
    throw new Invalid(`${where}.reserve: ${printable(reserve)} is neither a percentage such as 5% nor a size such as 10Gi`);
  parseQuantity(reserve);
}
