// The errors of the client. A message says what must hold and what to do, never where somebody is.
// Constructors are written out: a constructor by default may call Array.prototype[Symbol.iterator].

/** What was given cannot be used. */
export class InputError extends Error {
  constructor(message) {
    super(message);
  }
}

/** A file is not a mechanism, or not one that may be used. */
export class FormatError extends InputError {
  constructor(message) {
    super(message);
  }
}

/** A file claims a privacy that its numbers do not have, or is not the one that was pinned. */
export class GuaranteeError extends FormatError {
  constructor(message) {
    super(message);
  }
}

/** A report would cost more than is left of its budget: nothing was reported. */
export class BudgetError extends Error {
  constructor(message) {
    super(message);
  }
}
