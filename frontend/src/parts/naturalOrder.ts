/** The order in which people expect names: piece 2 before piece 10. */
export const byName = new Intl.Collator(undefined, { numeric: true }).compare;
