// The CEL rules of a kind, with the functions on quantities that kube-apiserver has and the library lacks. Knows no storage.
import { Environment } from '@marcbachmann/cel-js';
import { messageOf } from '../model/errors.ts';
import type { Rule } from '../model/kind.ts';
import { LARGEST } from '../model/quantity.ts';
import type { Structural } from '../model/structural.ts';
import { isRecord } from './merge-patch.ts';
import type { FieldProblem } from './status.ts';
import { invalidValue } from './validation.ts';

/** A quantity in thousandths: Kubernetes' smallest unit that our fields can tell apart. */
class Quantity {
  readonly milli: bigint;
  constructor(milli: bigint) {
    this.milli = milli;
  }
}

const QUANTITY = /^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:(m|k|[MGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,10}))?$/u;
const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const LARGEST_MILLI = LARGEST * 1000n;

const scaleOf = (suffix: string): bigint => {
  if (suffix === 'm') return 1n;
  const binary = BINARY.indexOf(suffix);
  return 1000n * (binary > 0 ? 1024n ** BigInt(binary) : 1000n ** BigInt(DECIMAL.indexOf(suffix)));
};

/** Thousandths of `digits` × 10^`power` × `scale`, rounded up. */
function thousandths(digits: string, power: number, scale: bigint): bigint {
  const scaled = BigInt(digits) * scale;
  if (power >= 0) return scaled * 10n ** BigInt(power);
  const divisor = 10n ** BigInt(-power);
  return (scaled + divisor - 1n) / divisor;
}

/** As Kubernetes reads it: what is above 2^63 - 1 counts as that. */
function quantity(text: string): Quantity | null {
  const [, sign, whole = '', fraction = '', suffix = '', exponent = '0'] = QUANTITY.exec(text) ?? [];
  const digits = whole + fraction;
  if (digits === '') return null;
  // Beyond 10^±60 every value is capped, or rounded, to the same.
  const power = Math.max(-60, Math.min(60, Number(exponent)));
  const milli = thousandths(digits, power - fraction.length, scaleOf(suffix));
  const capped = milli > LARGEST_MILLI ? LARGEST_MILLI : milli;
  return new Quantity(sign === '-' ? -capped : capped);
}

function parsed(text: string): Quantity {
  const value = quantity(text);
  if (!value) throw new Error(`${JSON.stringify(text)} is no quantity`);
  return value;
}

const environment = new Environment({ enableOptionalTypes: true })
  .registerVariable('self', 'dyn')
  .registerVariable('oldSelf', 'dyn')
  .registerType('Quantity', Quantity)
  .registerFunction('isQuantity(string): bool', (text: string) => quantity(text) !== null)
  .registerFunction('quantity(string): Quantity', parsed)
  .registerFunction('Quantity.isGreaterThan(Quantity): bool', (a: Quantity, b: Quantity) => a.milli > b.milli)
  .registerFunction('Quantity.isLessThan(Quantity): bool', (a: Quantity, b: Quantity) => a.milli < b.milli)
  .registerFunction('Quantity.compareTo(Quantity): int', (a: Quantity, b: Quantity) =>
    a.milli < b.milli ? -1n : a.milli > b.milli ? 1n : 0n,
  );

/** A value as CEL's types see it: integers are ints, not doubles. */
function celValue(schema: Structural | undefined, value: unknown): unknown {
  if (schema?.type === 'integer' && typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value);
  if (Array.isArray(value)) return value.map((item) => celValue(schema?.items, item));
  if (!isRecord(value)) return value;
  const fields = schema?.properties ?? {};
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      celValue(Object.hasOwn(fields, key) ? fields[key] : schema?.additionalProperties, item),
    ]),
  );
}

const PLACES = (path: string): string[] => (path === '' ? [] : path.split('.'));

function valueAt(value: unknown, path: string): unknown {
  let found = value;
  for (const name of PLACES(path)) found = isRecord(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  return found;
}

function schemaAt(schema: Structural, path: string): Structural | undefined {
  let found: Structural | undefined = schema;
  for (const name of PLACES(path)) found = found?.properties?.[name];
  return found;
}

interface Compiled extends Rule {
  schema: Structural | undefined;
  /** It compares with what was there before, so it says nothing of a new value. */
  transition: boolean;
  holds: (context: { self: unknown; oldSelf: unknown }) => unknown;
}

/** What is wrong with `object`, that replaces `old` (null: is new), by the rules. */
export type Rules = (object: object, old: object | null) => FieldProblem[];

function broken(rule: Compiled, object: object, old: object | null): FieldProblem[] {
  const value = valueAt(object, rule.path);
  const before = old === null ? undefined : valueAt(old, rule.path);
  // An unchanged value was judged when it came.
  if (value === undefined || value === before || (rule.transition && before === undefined)) return [];
  try {
    if (rule.holds({ self: celValue(rule.schema, value), oldSelf: celValue(rule.schema, before ?? null) }) === true) return [];
    return [invalidValue(fieldOf(rule), value, rule.message)];
  } catch (error) {
    return [invalidValue(fieldOf(rule), value, `rule evaluation error: ${messageOf(error).split('\n')[0]}`)];
  }
}

const fieldOf = ({ path, fieldPath = '' }: Rule): string => `${path}${fieldPath}`.replace(/^\./u, '');

/** Throws when a rule is not CEL. */
export function compileRules(schema: Structural, rules: readonly Rule[]): Rules {
  const compiled = rules.map((rule): Compiled => {
    const holds = environment.parse(rule.rule) as Compiled['holds'];
    return { ...rule, schema: schemaAt(schema, rule.path), transition: /\boldSelf\b/u.test(rule.rule), holds };
  });
  return (object, old) => compiled.flatMap((rule) => broken(rule, object, old));
}
