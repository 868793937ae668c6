// Command scores judges what the interop suites report and keeps their record,
// ../scores.json.
//
//	scores check  DIR…   exit 1 if something got worse; tells what got better
//	scores update DIR…   writes the record anew; exit 1 if something is broken
//
// A DIR is what run.sh leaves: for each suite NAME.tsv and NAME.log (all that it
// printed). With several directories (one for each I/O backend) a test counts as
// passed when it passed in each.
//
// A .tsv holds lines of tab-separated fields, written as the suite goes:
//
//	client  VERSION          the client library, name and version
//	pass    TEST
//	fail    TEST  DETAIL
//	skip    TEST  REASON
//	done                     the suite got to its end
//	end     STATUS  SECONDS  appended by run.sh
//
// What the broker does not do yet is listed in ../expected-missing.txt, a line
// "suite | test | reason" for each test. The rules:
//
//  1. A test that fails must be listed.
//  2. A test that the record has as passed must be reported and pass: neither
//     the list nor a skip excuses it.
//  3. A listed test must be reported, and a skipped one must say why.
//  4. A suite must get to its end, report a test once, and exit with 0 unless a
//     test failed.
//  5. What passes though listed, or is not in the record yet, is an improvement:
//     told, and written to the record by update.
//
// Update accepts losses under rule 2 (the change of the record shows them to
// whoever reviews it) and nothing else.
package main
