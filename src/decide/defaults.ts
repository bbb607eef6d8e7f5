// What a volume and a move get that do not say otherwise.

export const DEFAULTS = { allowedPause: '2s', retainSource: '24h', stallPolicy: 'Wait' } as const;
