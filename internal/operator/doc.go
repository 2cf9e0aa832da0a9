// Package operator is what the operators of package topology do at run time: functions that are called by their parent with typed key and
// value, and call their children so. No DSL type is mentioned here, so keys may be wrapped (window.Key[K]) as often as needed.
//
// Functions here are called while a task is wired, once per task: what they make belongs to that task. What they return runs once per
// record and allocates nothing: closures that a store or a guard needs are made beforehand and read the record from variables beside them.
// That is safe because the graph has no cycles, so no operator is entered while it runs.
//
// Every call of a user's function is preceded by Task.At, so that a panic is blamed on the right node. Where the policy of the node lets the
// task go on after a failed record, the call is made inside Task.Guard.
package operator
