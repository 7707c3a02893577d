-- The server remembers the component in its data directory.
INSTALL COMPONENT 'file://component_tacho';
