'use strict';
// Checks the broker at $AMQP_URL with amqplib: promise and callback APIs.
// Usage: node checks.js [WORD…]   runs the checks whose name contains one of the words (default: all).
// VERBOSE=1 prints the passed ones too.

require('./checks_connection');
require('./checks_topology');
require('./checks_messages');
require('./checks_callback');

require('./harness')
  .run(process.argv.slice(2))
  .then((status) => process.exit(status));
