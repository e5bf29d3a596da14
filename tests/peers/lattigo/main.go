// Lattigo as an independent oracle and as a peer for CKKS: the program prints Lattigo's encodings,
// decodings and results, and the times of its bootstraps.
package main

import (
	"fmt"
	"os"
)

const usage = "lattigo oracle < REQUESTS, or lattigo bootstrap [-set NAME] [-size-log2 N] [-rounds N] [-threads N]"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("the command is missing: %s", usage)
	}
	switch arguments[0] {
	case "oracle":
		return answer(os.Stdin, os.Stdout)
	case "bootstrap":
		return bootstrap(arguments[1:], os.Stdout)
	default:
		return fmt.Errorf("there is no command '%s': %s", arguments[0], usage)
	}
}
