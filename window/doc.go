// Package window describes windows of event time: when they start and end, how long late records are welcome (grace), and how
// long the window stays readable afterwards (retention). A window is the bound of the state that is kept in it.
//
//	window.Tumbling(5 * time.Minute).Grace(time.Minute)          // 10:00 to 10:05, 10:05 to 10:10; a minute late is fine
//	window.Hopping(time.Hour, 5 * time.Minute)                   // an hour each, a new one every five minutes
//	window.Daily(berlin)                                         // by the calendar, 23 or 25 hours on some days
//	window.Sliding(10 * time.Minute)                             // whatever lies at most ten minutes apart
//	window.Sessions(30 * time.Minute).MaxLength(24 * time.Hour)  // until a pause of more than half an hour
//	window.Within(10 * time.Minute)                              // for joins
//
// Starts are inclusive. Ends are exclusive for tumbling, hopping and calendar windows, inclusive for sliding windows and
// sessions, as in Kafka Streams. All times have millisecond resolution. Windows do not start before 1970: a hopping window that would is
// left out, and the first window of a calendar begins on the first of January 1970 at midnight UTC.
//
// # Late records
//
// Whether a record is late is decided by stream time alone: the largest event time of the records, of all keys, that have reached the operator itself in its partition. So two
// aggregations of one stream may differ, one behind a filter being behind, and no clock on the wall takes part. It is committed with the offsets: what was closed before a restart or a move is
// closed after.
//
//	tumbling, hopping, calendar   closed when stream time has reached the end and the grace
//	sliding                       closed when it is past them
//	sessions                      closed when it is past the end, the gap and the grace
//
// What is late for one window may be in time for another. Late records are dropped, counted under "late", and on request sent to a topic (topology.OnDrop). The grace is zero unless set, so
// that a record which is a millisecond too late for its window is dropped.
//
// A window that is closed changes no more. It can still be read until stream time has passed its start (of a session, its end) by the retention.
//
// # Calendar windows
//
// Days, weeks, months, quarters and years follow the clocks of a time zone, given by its IANA name:
//
//	berlin, err := time.LoadLocation("Europe/Berlin")
//
// The day the clocks go forward has 23 hours, the one they go back has 25. A day begins when its date is first shown: where the clocks go
// forward at midnight that is one o'clock; where they go back over midnight the repeated hour belongs to the new day; a date that was
// left out has no window. Programs that run where no zone database is installed import time/tzdata. When the rules of a zone change, windows that
// start after the change differ between old and new databases, so give all instances the same one.
//
// # Mistakes
//
// A specification never fails when it is made. What is wrong with it, such as an advance that is larger than the size, is told by Build,
// together with everything else that is wrong with the topology.
package window
