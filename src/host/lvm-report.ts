// What LVM reports of one volume group, read into shapes. No I/O; knows neither copies nor labels.
import { FlockError, messageOf } from '../model/errors.ts';

/** Sizes in bytes. */
export interface VolumeGroup {
  name: string;
  /** As LVM writes it. */
  uuid: string;
  size: bigint;
  free: bigint;
  extent: bigint;
  /** Disks that it should have and has not. */
  missing: number;
  volumes: LogicalVolume[];
}

export interface LogicalVolume {
  name: string;
  uuid: string;
  /** What of it is seen; of a thick snapshot the size of its exception store. */
  size: bigint;
  tags: string[];
  layout: string[];
  role: string[];
  origin: string | null;
  /** Of a thick snapshot: what of its origin it shows. */
  originSize: bigint;
  /** Thin pool that it lies in. */
  pool: string | null;
  /** Of a thin pool, or of what of a thin volume is mapped; null while it is not active. */
  dataPercent: number | null;
  metadataPercent: number | null;
  metadataSize: bigint;
  /** How full the exception store is. */
  snapPercent: number | null;
  /** The exception store overflowed. */
  invalid: boolean;
  /** Path of its device while active; built by LVM, for hyphens are doubled there. */
  device: string;
  health: string;
  thinId: number | null;
  chunk: bigint;
  /** Of a thin pool: new blocks are zeroed. */
  zeroes: boolean;
  discards: string;
}

const FIELDS = {
  vg: 'vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_missing_pv_count',
  lv:
    'lv_name,lv_uuid,lv_size,lv_tags,lv_layout,lv_role,origin,pool_lv,data_percent,metadata_percent,lv_metadata_size,origin_size,snap_percent,' +
    'lv_snapshot_invalid,lv_dm_path,lv_health_status',
  pv: 'pv_name',
  seg: 'lv_name,thin_id,chunk_size,zero,discards',
  pvseg: 'pvseg_start',
};

const FORM = ['fullreport', '--reportformat', 'json', '--units', 'b', '--nosuffix'];

/** Of `lvm`: all of one volume group in one look. */
export const reportArguments = (volumeGroup: string): string[] => {
  const reports = Object.entries(FIELDS).flatMap(([report, fields]) => ['--configreport', report, '-o', fields]);
  return [...FORM, ...reports, volumeGroup];
};

type Row = { [field: string]: string };
interface Report {
  vg?: Row[];
  lv?: Row[];
  seg?: Row[];
}

/** Throws NotFound when it is not in the report, Conflict when two have the name, Internal for what is no report. */
export function parseReport(text: string, volumeGroup: string): VolumeGroup {
  const found = reportsIn(text).filter(({ vg }) => vg?.[0]?.['vg_name'] === volumeGroup);
  const [first, ...more] = found;
  if (!first) throw new FlockError('NotFound', `there is no volume group ${volumeGroup} on this node`);
  if (more.length > 0)
    throw new FlockError('Conflict', `two volume groups are called ${volumeGroup}: rename one by its UUID (vgrename), or remove its disk`);
  return groupOf(first);
}

function reportsIn(text: string): Report[] {
  try {
    const { report } = JSON.parse(text) as { report: Report[] };
    return report;
  } catch (error) {
    throw new FlockError('Internal', `LVM's report cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function groupOf({ vg, lv = [], seg = [] }: Report): VolumeGroup {
  const row = vg?.[0] ?? {};
  const segments = new Map(seg.map((each) => [text(each, 'lv_name'), each]));
  return {
    name: text(row, 'vg_name'),
    uuid: text(row, 'vg_uuid'),
    size: bytes(row, 'vg_size'),
    free: bytes(row, 'vg_free'),
    extent: bytes(row, 'vg_extent_size'),
    missing: Number(text(row, 'vg_missing_pv_count')),
    volumes: lv.map((each) => volumeOf(each, segments.get(text(each, 'lv_name')) ?? {})),
  };
}

function volumeOf(row: Row, segment: Row): LogicalVolume {
  const thinId = number(segment, 'thin_id');
  return {
    name: text(row, 'lv_name'),
    uuid: text(row, 'lv_uuid'),
    size: bytes(row, 'lv_size'),
    tags: list(row, 'lv_tags'),
    layout: list(row, 'lv_layout'),
    role: list(row, 'lv_role'),
    origin: text(row, 'origin') || null,
    originSize: bytes(row, 'origin_size'),
    pool: text(row, 'pool_lv') || null,
    dataPercent: number(row, 'data_percent'),
    metadataPercent: number(row, 'metadata_percent'),
    metadataSize: bytes(row, 'lv_metadata_size'),
    snapPercent: number(row, 'snap_percent'),
    // The field says `unknown` of what is no snapshot, or not active.
    invalid: text(row, 'lv_snapshot_invalid') === 'snapshot invalid',
    device: text(row, 'lv_dm_path'),
    health: text(row, 'lv_health_status'),
    thinId,
    chunk: bytes(segment, 'chunk_size'),
    zeroes: text(segment, 'zero') === 'zero',
    discards: text(segment, 'discards'),
  };
}

const text = (row: Row, field: string): string => row[field] ?? '';
const list = (row: Row, field: string): string[] => text(row, field).split(',').filter(Boolean);
const bytes = (row: Row, field: string): bigint => BigInt(text(row, field) || '0');
const number = (row: Row, field: string): number | null => (text(row, field) === '' ? null : Number(text(row, field)));
