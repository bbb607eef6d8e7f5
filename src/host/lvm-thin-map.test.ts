import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mappedRanges } from './lvm-thin-map.ts';

const BLOCK = 65_536n;
const ranges = (text: string) =>
  [...mappedRanges(text.split('\n'))].map(({ offset, length, kind }) => [offset / BLOCK, length / BLOCK, kind]);

test('reads what differs between two thin volumes: what is gone reads as zeros', () => {
  const text = `<superblock uuid="" time="2" transaction="3" data_block_size="128" nr_data_blocks="0">
  <diff left="3" right="1">
    <same begin="0" length="3"/>
    <different begin="3" length="1"/>
    <same begin="4" length="6"/>
    <left_only begin="10" length="2"/>
    <same begin="12" length="8"/>
    <right_only begin="30" length="5"/>
  </diff>
</superblock>`;
  assert.deepEqual(ranges(text), [
    [3n, 1n, 'data'],
    [10n, 2n, 'gone'],
    [30n, 5n, 'data'],
  ]);
});

test('reads what one thin volume has, neighbours as one range', () => {
  const text = `<superblock uuid="" time="2" transaction="3" version="2" data_block_size="128" nr_data_blocks="0">
  <device dev_id="1" mapped_blocks="23" transaction="0" creation_time="0" snap_time="2">
    <range_mapping origin_begin="0" data_begin="0" length="3" time="1"/>
    <single_mapping origin_block="3" data_block="25" time="2"/>
    <range_mapping origin_begin="4" data_begin="4" length="6" time="1"/>
    <range_mapping origin_begin="12" data_begin="12" length="8" time="1"/>
  </device>
</superblock>`;
  assert.deepEqual(ranges(text), [
    [0n, 10n, 'data'],
    [12n, 8n, 'data'],
  ]);
});

test('a different kind beside another is a range of its own', () => {
  const text =
    '<superblock data_block_size="128">\n<different begin="1" length="1"/>\n<left_only begin="2" length="1"/>\n<right_only begin="3"/>';
  assert.deepEqual(ranges(text), [
    [1n, 1n, 'data'],
    [2n, 1n, 'gone'],
    [3n, 1n, 'data'],
  ]);
});

test('refuses a map that does not say how large its blocks are', () => {
  assert.throws(() => ranges('<diff>\n<different begin="1" length="1"/>'), /how large its blocks are/u);
});
