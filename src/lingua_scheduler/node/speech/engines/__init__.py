"""The engines that come with the node, one file each; heavy packages are imported when an engine is made."""
