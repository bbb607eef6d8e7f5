// What an object becomes by an update, and what its writer expected to find: the pure part of the registry's writes. Knows no storage.
import type { Kind } from '../model/kind.ts';
import type { ApiObject, ObjectMeta } from '../model/meta.ts';
import type { DeleteOptions } from './client.ts';
import type { Definition, Fields, Given } from './definition.ts';
import { sameJson } from './merge-patch.ts';
import { keptMeta } from './metadata.ts';
import type { Kept } from './shelf.ts';
import { MODIFIED, conflict, invalid } from './status.ts';
import { invalidValue } from './validation.ts';

/** The fields with the status of others, or without any. */
function withStatus(fields: Fields, of: Fields): Fields {
  const { status: _, ...rest } = fields;
  return of['status'] === undefined ? rest : { ...rest, status: of['status'] };
}

/** What of `given` counts: with `status` only its status, else all the rest, if the kind tells the two apart. */
function written(kind: Kind, given: Fields, before: Fields, status: boolean): Fields {
  if (status) return withStatus(before, given);
  return kind.statusSubresource ? withStatus(given, before) : given;
}

/** The object after the update, still with the version that it had. Shares with `old` what stays the same. */
export function revised(definition: Definition, given: Given, old: Kept, status: boolean): ApiObject & Fields {
  const before = definition.fieldsOf(old);
  const fields = definition.shared(written(definition.kind, given.fields, before, status), before);
  const meta = status ? old.metadata : keptMeta(given.meta, old.metadata);
  const respecified = !sameJson(withStatus(fields, {}), withStatus(before, {}));
  const generation = definition.counted && respecified ? { generation: (meta.generation ?? 0) + 1 } : {};
  return definition.whole({ ...meta, ...generation }, fields);
}

/** Throws Conflict when an update was made for another object or another version, Invalid when it does not say for which. */
export function checkExpected(kind: Kind, { uid, resourceVersion }: ObjectMeta, old: Kept): void {
  const { name, uid: there, resourceVersion: version } = old.metadata;
  if (uid && uid !== there) throw conflict(kind, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${there}`);
  if (!resourceVersion) throw invalid(kind, name, [invalidValue('metadata.resourceVersion', 0, 'must be specified for an update')]);
  if (resourceVersion !== version) throw conflict(kind, name, MODIFIED);
}

/** Throws Conflict when a delete was meant for another object or another version. */
export function checkPreconditions(kind: Kind, { uid, resourceVersion }: DeleteOptions, old: Kept): void {
  const { name, uid: there, resourceVersion: version } = old.metadata;
  const differs = (what: string, wanted: string, found: string): string =>
    `the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found}).`;
  if (uid && uid !== there) {
    throw conflict(kind, name, `${differs('UID', uid, there)} The object might have been deleted and then recreated`);
  }
  if (resourceVersion && resourceVersion !== version) {
    throw conflict(kind, name, `${differs('ResourceVersion', resourceVersion, version)} The object might have been modified`);
  }
}
