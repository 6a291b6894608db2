"""An open session, and what is known of its steps: outputs, evidence, loops, logs."""
