package main

import (
	"strings"
	"testing"
)

const events = `{"Action":"output","Package":"p","Output":"  1.0s  API server ready\n"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"figure: {\"value\":1}\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    x_test.go:1: nobody needs this\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":1.5}
{"Action":"output","Package":"p","Test":"TestBad/part","Output":"    x_test.go:2: this is why\n"}
{"Action":"fail","Package":"p","Test":"TestBad/part","Elapsed":2}
{"Action":"fail","Package":"p","Test":"TestBad","Elapsed":2}
{"Action":"output","Package":"p","Test":"TestLater","Output":"    x_test.go:3: not here\n"}
{"Action":"skip","Package":"p","Test":"TestLater","Elapsed":0}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":4}
{"Action":"output","Package":"q","Test":"TestCut","Output":"panic: cut short\n"}
{"Action":"fail","Package":"q","Elapsed":1}
`

const shown = `  1.0s  API server ready
figure: {"value":1}
ok      1.5 s  TestGood
FAIL    2.0 s  TestBad
        x_test.go:2: this is why
skip    0.0 s  TestLater
        x_test.go:3: not here
    panic: cut short
`

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown {
		t.Errorf("got\n%s\nwant\n%s", out.String(), shown)
	}
	if r.passed != 1 || len(r.failures) != 2 || r.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped", r.passed, len(r.failures), r.skipped)
	}
	if got := r.names(r.failures); got != "TestBad, q" {
		t.Errorf("failed: %s", got)
	}
}

// What failed is run again, and nothing else, but for a package that a panic cut
// short: there nobody knows how the other tests would have ended.
func TestTryAgain(t *testing.T) {
	first := read(t, `{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"fail","Package":"p","Test":"TestUnsteady"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"fail","Package":"p"}
{"Action":"pass","Package":"q","Test":"TestGood"}
{"Action":"output","Package":"q","Test":"TestPanics","Output":"panic: boo [recovered]\n"}
{"Action":"fail","Package":"q","Test":"TestPanics"}
{"Action":"fail","Package":"q"}
`)
	again := map[string]string{
		"p ^(TestUnsteady|TestBad)$": `{"Action":"pass","Package":"p","Test":"TestUnsteady"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"fail","Package":"p"}
`,
		"q ": `{"Action":"pass","Package":"q","Test":"TestGood"}
{"Action":"pass","Package":"q","Test":"TestPanics"}
{"Action":"pass","Package":"q","Test":"TestNotReached"}
{"Action":"pass","Package":"q"}
`}
	if err := first.tryAgain(func(pkg, tests string) (*report, error) {
		events, ok := again[pkg+" "+tests]
		if !ok {
			t.Errorf("%s of %s are run again", tests, pkg)
		}
		return read(t, events), nil
	}); err != nil {
		t.Fatal(err)
	}
	if failed, unsteady := first.names(first.failures), first.names(first.unsteady); failed != "TestBad" || unsteady != "TestUnsteady, TestPanics" {
		t.Errorf("failed: %s; unsteady: %s", failed, unsteady)
	}
	if first.passed != 5 {
		t.Errorf("%d passed, want TestGood and TestUnsteady of p and all three of q", first.passed)
	}
}

func read(t *testing.T, events string) *report {
	r := newReport(&strings.Builder{})
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	return r
}
