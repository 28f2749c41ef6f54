package main

import (
	"fmt"
	"strconv"

	"rtj.dev/rtj/test/figures"
)

type figure = figures.Figure

// measured is the value of a figure as a person reads it.
func measured(f figure) string {
	decimals := 3
	for v := f.Value; v >= 10 && decimals > 0; v /= 10 {
		decimals--
	}
	return strconv.FormatFloat(f.Value, 'f', decimals, 64) + " " + f.Unit
}

// promise is a bound on a figure, in the figure's own unit.
type promise struct {
	most, least float64
	unit        string
	// cluster: it is measured on the local cluster.
	cluster bool
}

func (p promise) kept(v float64) bool {
	if p.least > 0 {
		return v >= p.least
	}
	return v <= p.most
}

func (p promise) String() string {
	if p.least > 0 {
		return fmt.Sprintf("at least %g %s", p.least, p.unit)
	}
	return fmt.Sprintf("at most %g %s", p.most, p.unit)
}

// promises are the bounds that are part of the product, by a figure's name.
var promises = map[string]promise{
	"compose.Sync":                               {most: 150, unit: "µs"},
	"HTTP sync hook, with managedFields":         {least: 1000, unit: "requests/s"},
	"HTTP sync hook, without managedFields":      {least: 2500, unit: "requests/s"},
	"simulated hook calls":                       {least: 10000, unit: "calls/s"},
	"job.step with nothing due, median":          {most: 20, unit: "µs"},
	"job.step with nothing due, p99":             {most: 200, unit: "µs"},
	"API writes of one preempt-and-resume cycle": {most: 16, unit: "writes", cluster: true},
	"API writes when idle":                       {most: 0, unit: "writes", cluster: true},
	"eviction to workers knowing":                {most: 1, unit: "s", cluster: true},
	"convergence of 500 parents":                 {most: 4, unit: "s", cluster: true},
	"idle, writes":                               {most: 0, unit: "requests", cluster: true},
	"idle, live reads":                           {most: 0, unit: "requests", cluster: true},
}
