<?php

declare(strict_types=1);

// Checks the broker at $AMQP_URL with php-amqplib. Usage: checks.php [WORD…]   runs the checks whose name
// contains one of the words (default: all). VERBOSE=1 prints the passed ones too.

require __DIR__ . '/harness.php';
require __DIR__ . '/checks_topology.php';
require __DIR__ . '/checks_messages.php';
require __DIR__ . '/checks_arguments.php';

exit(run(array_slice($argv, 1)));
