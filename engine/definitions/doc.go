// Package definitions reads and writes definitions files: the JSON in which
// RabbitMQ and LavinMQ export users, virtual hosts, permissions, policies,
// parameters, queues, exchanges and bindings.
//
// Import reads a file into a broker.Import, which is made wholly or not at all;
// what cannot be made is reported line by line, each with the JSON path of its
// element ($.queues[3]). Export writes what a broker has in the same shape,
// sorted, so that two exports of the same state are the same bytes but for the
// version.
//
// Invariants:
//
//  1. Importing what was exported changes nothing.
//  2. Exporting what was imported into an empty broker gives the same elements,
//     but for types of arguments that JSON does not have (package tablejson).
//
// What other brokers keep under other names: limits of a virtual host are a
// parameter of the component "vhost-limits", operator policies parameters of
// "operator_policy".
//
// Threading: functions only; they call the broker, and no loop waits for them.
package definitions
