// Package exactjson reads JSON objects that say what somebody may do. The standard
// library takes a field under any spelling of its name ("Tags" for "tags"), takes
// the last of two with the same name, and replaces bytes that are no text: what
// a filter in between, or a reader, made of an object is then not what is done.
// Here names count byte by byte, once each, and texts are UTF-8.
//
// A byte order mark is passed over, as some editors write it.
//
// Threading: functions only.
package exactjson
