// Package convert translates the configuration files of other brokers: LavinMQ's
// lavinmq.ini and the common part of RabbitMQ's rabbitmq.conf.
//
// Invariants:
//
//  1. Nothing gets lost without a word: every entry of the file is translated,
//     or it is listed with the reason why it is not.
//  2. What comes out is a configuration that the broker takes.
//
// Threading: none; it works on texts.
package convert
