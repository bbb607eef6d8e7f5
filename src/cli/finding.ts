// One thing that the doctor found. Knows no check.

/** ok: as it should be · note: something that this cluster can do without · wrong: something that a person should mend. */
export interface Finding {
  state: 'ok' | 'note' | 'wrong';
  text: string;
}

export const ok = (text: string): Finding => ({ state: 'ok', text });
export const note = (text: string): Finding => ({ state: 'note', text });
export const wrong = (text: string): Finding => ({ state: 'wrong', text });
