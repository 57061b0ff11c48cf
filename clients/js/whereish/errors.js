// The errors of the client. A message says what must hold and what to do, and never holds a
// location. Constructors are explicit because a default constructor may call
// Array.prototype[Symbol.iterator].

/** An argument or an option is not valid. */
export class InputError extends Error {
  constructor(message) {
    super(message);
  }
}

/** A file is not a valid mechanism, or a stored ledger is not valid. */
export class FormatError extends InputError {
  constructor(message) {
    super(message);
  }
}

/** A file claims a privacy that its numbers do not have, or it is not the pinned file. */
export class GuaranteeError extends FormatError {
  constructor(message) {
    super(message);
  }
}

/** A report would cost more than is left of the budget. Nothing was reported. */
export class BudgetError extends Error {
  constructor(message) {
    super(message);
  }
}

/** The solver ended without a result: no memory, or an internal error. */
export class SolveError extends Error {
  constructor(message) {
    super(message);
  }
}
