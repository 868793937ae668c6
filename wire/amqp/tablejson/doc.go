// Package tablejson writes field tables as JSON and reads them back, the way
// definitions files and HTTP APIs of AMQP brokers have them.
//
//	table                        JSON
//	integers of any width        number without fraction; read as 64-bit integer
//	floats                       number; one without fraction gets ".0"
//	string, bytes                string, bytes that are not UTF-8 as U+FFFD
//	bool, void                   true, false, null
//	timestamp                    number of seconds
//	decimal                      number
//	table, array                 object with sorted names, array
//
// What JSON has no type for loses its own: a timestamp comes back as an integer.
// Equal compares what is left. Infinities and NaN become null.
//
// Threading: functions only.
package tablejson
