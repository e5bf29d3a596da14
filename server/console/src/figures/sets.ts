// Short names of parameter sets.

/** The telling part of a name: `V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128` becomes `2_2 KS_PBS`. */
export function shortSet(name: string): string {
  const blocks = /^V\d+_\d+_PARAM_(?:(.*)_)?MESSAGE_(\d+)_CARRY_(\d+)_(KS\d*_PBS|PBS_KS)/.exec(name);
  const bits = /^PARAMETERS_ERROR_PROB_2_POW_MINUS_(\d+)(?:_(.*))?$/.exec(name);
  if (bits) return ['boolean', `2^-${bits[1]}`, bits[2]].filter(Boolean).join(' ');
  if (!blocks) return name;
  const [, kind, message, carry, form] = blocks;
  return [`${message}_${carry}`, form, kind?.toLowerCase()].filter(Boolean).join(' ');
}
